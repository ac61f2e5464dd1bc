// What an operator is: the facts that its definition states once (OpInfo), and the base classes
// that supply defaults.
#pragma once

#include "iterlab/number.h"
#include "iterlab/promote.h"
#include "iterlab/reduce_facts.h"

#include <array>
#include <bit>
#include <string_view>

namespace iterlab {

// How the result dtype follows from the common dtype of the promoted inputs (torch's promotion
// kinds).
enum class Promotion : uint8_t {
  Default,                  // result = common dtype
  IntToFloat,               // integers and bool compute and return the default dtype
  FloatToBool,              // computes as IntToFloat, returns bool
  AlwaysBool,               // computes in the common dtype, returns bool
  ComplexToReal,            // computes in the common dtype, returns its real dtype
  ToArgument,               // returns the dtype that an argument names (a cast)
  IntToFloatComplexToReal,  // IntToFloat and ComplexToReal
  BoolToInt,                // bool computes and returns int64
  AlwaysInt,                // computes in the common dtype, returns int32
};

// How a parameter that is not a tensor is declared in the schema, checked, and given to the
// functor.
enum class ParameterKind : uint8_t {
  Scalar,  // any number; the functor gets a V
  Alpha,   // a number that multiplies an operand: no float for integers, no complex for reals; a V
  Float,   // a float; a V
  OptionalFloat,  // a float or None; an Optional<V>
  Int,     // an integer; an int64_t, the same for all lanes, so that a branch on it is hoisted
  Bool,    // a bool; an int64_t
  Choice,  // one of the strings in `choices`; its position, an int64_t
  DType,   // the dtype of the result; the functor does not see it
  MemoryFormat,  // the layout of the result, or None; the functor does not see it
};

struct Parameter {
  const char* name = nullptr;
  ParameterKind kind = ParameterKind::Scalar;
  const char* default_value = nullptr;  // as the schema spells it; null: required
  bool keyword_only = false;
  bool at_least_zero = false;            // of a Float: refused where negative
  std::array<const char*, 3> choices{};  // a null among the first ones stands for None
  int num_choices = 0;
};

// Whether None is among a choice's values.
constexpr bool takes_none(const Parameter& parameter) {
  for (int i = 0; i < parameter.num_choices; ++i) {
    if (parameter.choices[static_cast<size_t>(i)] == nullptr) return true;
  }
  return false;
}

// What a functor gets for a parameter that may be None.
template <class V>
struct Optional {
  V value;
  bool given;
};

// Whether a parameter is a number that the functor takes after the tensor operands.
constexpr bool reaches_functor(ParameterKind kind) {
  return kind != ParameterKind::DType && kind != ParameterKind::MemoryFormat;
}

// What a functor gets after its parameters, besides what the schema says.
enum class Extra : uint8_t {
  None,
  Power,  // a Power: what the last input is, where it was given as a number
  DType,  // the common dtype, an int64_t: for what depends on the width that results are kept in
};

// Exponents that are computed without the power function, as ATen does, where they are numbers. The
// same for all lanes.
enum class Power : uint8_t {
  Other,
  One,
  Same,
  Square,
  Cube,
  Root,
  InverseRoot,
  Inverse,
  InverseSquare,
};

inline Power power_of(const Number& exponent) {
  if (exponent.is_none() || exponent.imag != 0) return Power::Other;
  const double value = exponent.to<double>();
  return value == 0      ? Power::One
         : value == 1    ? Power::Same
         : value == 2    ? Power::Square
         : value == 3    ? Power::Cube
         : value == 0.5  ? Power::Root
         : value == -0.5 ? Power::InverseRoot
         : value == -1   ? Power::Inverse
         : value == -2   ? Power::InverseSquare
                         : Power::Other;
}

// What a definition's own check of a call's inputs sees of each.
struct InputFacts {
  DType dtype;
  PromotionCategory category;
};

// Null where the inputs will do, else what was expected of them.
using InputCheck = const char* (*)(const InputFacts* inputs);

// Which of Python's exceptions an error becomes.
enum class ErrorKind : uint8_t { Runtime, Index, Type, Value, NotImplemented };

// What a definition's own check of its parameters says: what was expected of them, or null where
// they will do.
struct Refusal {
  const char* expected = nullptr;
  ErrorKind kind = ErrorKind::Runtime;
};

// `parameters`: in the order of the functor.
using ParameterCheck = Refusal (*)(const Number* parameters, DType common_dtype);

// Which schemas an operator gets.
enum Variants : uint8_t {
  kFunctional = 1,
  kOut = 2,
  kInplace = 4,
  kAllVariants = kFunctional | kOut | kInplace,
};

// What autocast does to a call, as ATen's lists say.
enum class Autocast : uint8_t {
  None,            // nothing: operands promote as they are
  Float32,         // operands are cast to float32
  Float32Result,   // the dtype argument is float32 unless given
  Promote,         // operands are cast to the widest of their dtypes and autocast's
  LowerPrecision,  // operands are cast to autocast's dtype
};

struct AutocastPolicy {
  Autocast cuda = Autocast::None;
  Autocast cpu = Autocast::None;
};

enum class OpKind : uint8_t { Elementwise, Reduction };

// Everything that is known of an operator apart from its formula. Plain data: the planner, the
// dispatcher registration, the documentation, the tests and the benchmarks read it, none of them
// knows an operator by name.
struct OpInfo {
  const char* name;
  const char* doc;         // one sentence with the formula, in terms of the argument names
  const char* torch_name;  // the twin under `torch.`, or null where torch has none
  OpKind kind;
  int num_inputs;
  int num_outputs;
  std::array<const char*, kMaxOperands> inputs;  // argument names
  uint32_t
      promoted_inputs;     // bit i: input i takes part in promotion and is cast to the common dtype
  uint32_t bool_inputs;    // bit i: input i must be bool (or uint8, as torch allows)
  uint32_t number_inputs;  // bit i: input i is one value, a number or a 0-d tensor, which is cast
                           // to the common dtype and takes no part in promotion
  uint32_t
      unread_inputs;     // bit i: input i gives shape, dtype and layout; its elements are not read
  uint32_t wide_inputs;  // bit i: input i keeps its precision where it is a number or a 0-d tensor.
                         // Note [Rounded operands]
  bool numbers_must_fit;  // a number that the common dtype cannot hold is refused, not wrapped
  InputCheck refuses;     // null, or the definition's own check
  int num_parameters;
  std::array<Parameter, kMaxParameters> parameters;
  ParameterCheck refuses_parameters;  // null, or the definition's own check
  bool rounds_parameters;             // they are rounded to the common dtype, as elements are
  Promotion promotion;
  DTypeSet dtypes;         // common dtypes that the operator computes
  DTypeSet number_dtypes;  // and those that it computes where its last input is a number
  DTypeSet beyond_torch;   // those of inputs that its twin in torch refuses
  int rounding_parameter;  // a Choice that, unless it is the first one, makes the promotion Default
                           // and the common dtypes these; -1: none
  DTypeSet rounded_dtypes;
  Extra extra;
  ReduceFacts reduction;
  uint8_t variants;
  bool moves_bits;  // only moves values: computed on raw bits of the element's width, whatever the
                    // dtype
  bool converts_lanes;     // kernels in float read and write other dtypes: Note [Lane formats]
  bool preserves_strides;  // the result has the first input's strides where that is dense, exactly,
                           // or those of a memory format argument
  bool preserves_gaps;     // and where it is not dense, unless elements share memory
  AutocastPolicy autocast;
  double cost;  // work per element relative to an add; weighs the grain of parallel work
};

// Base of elementwise operators with N tensor inputs. A definition derives from Unary, Binary or
// Ternary, states what differs from the defaults below, and has a `template <class V> V
// operator()(V..., V parameters...) const`, where V is a scalar, an at::vec vector, or a CUDA
// scalar of the compute type.
template <int N>
struct Elementwise {
  static constexpr OpKind kind = OpKind::Elementwise;
  static constexpr int num_inputs = N;
  static constexpr int num_outputs = 1;
  static constexpr uint32_t promoted_inputs = (1u << N) - 1;
  static constexpr uint32_t bool_inputs = 0;
  static constexpr uint32_t number_inputs = 0;
  static constexpr uint32_t unread_inputs = 0;
  static constexpr uint32_t wide_inputs = 0;
  static constexpr bool numbers_must_fit = false;
  static constexpr InputCheck refuses = nullptr;
  static constexpr std::array<Parameter, 0> parameters{};
  static constexpr Promotion promotion = Promotion::Default;
  static constexpr ParameterCheck refuses_parameters = nullptr;
  static constexpr bool rounds_parameters = false;
  static constexpr DTypeSet dtypes = kAllButFloat8;
  static constexpr DTypeSet number_dtypes{};
  static constexpr int rounding_parameter = -1;
  static constexpr DTypeSet rounded_dtypes{};
  static constexpr Extra extra = Extra::None;
  static constexpr bool simd = true;          // false: a loop over Lane<T> for floating types too
  static constexpr bool complex_simd = true;  // false: a loop over Lane<T> for complex types
  static constexpr bool converts = true;      // false: no kernel that converts lanes; a library's
                                              // function is one of buffers
  static constexpr uint8_t variants = kAllVariants;
  static constexpr bool moves_bits = false;
  static constexpr bool changes_signs_only = false;  // true: halves are computed as they are stored
  static constexpr bool preserves_strides = false;
  static constexpr bool preserves_gaps = false;
  static constexpr double cost = 1;
};

struct Unary : Elementwise<1> {
  static constexpr std::array inputs{"input"};
};
struct Binary : Elementwise<2> {
  static constexpr std::array inputs{"input", "other"};
};
struct Ternary : Elementwise<3> {};

// Note [Formulas around a function]
// An operator whose formula is after(input, Inner(before(input))), with Inner an operator too, says
// so in these parts: a backend whose library computes Inner for whole buffers runs them one after
// the other. Both parts take the parameters last.
template <class Op, class V, class... Parameters>
ITERLAB_FN V around_inner(V input, Parameters... parameters) {
  const V inside = typename Op::Inner{}(Op::before(input, parameters...));
  return Op::after(input, inside, parameters...);
}

// Whether the result is true or false.
constexpr bool gives_bool(Promotion promotion) {
  return promotion == Promotion::AlwaysBool || promotion == Promotion::FloatToBool;
}

// Whether the result is an input, as it is or converted.
template <class Op>
constexpr bool moves_one_input() {
  return Op::moves_bits && Op::num_inputs - std::popcount(Op::unread_inputs) == 1;
}

// Note [Which operators convert lanes]
// A kernel that converts as it loads and stores costs build time and is worth it where the formula
// is not: behind 4 times the work of an add, a pass through the first-level cache is hidden.
template <class Op>
constexpr bool converts_lanes() {
  if constexpr (Op::kind != OpKind::Elementwise || Op::num_outputs != 1) {
    return false;
  } else if constexpr (Op::moves_bits) {
    return moves_one_input<Op>();
  } else {
    return Op::simd && Op::converts && Op::dtypes.contains(DType::Float) && Op::cost <= 4;
  }
}

// Whether the functor takes its inputs, lanes of T, where it has no parameters.
template <class Op, class T, size_t... I>
constexpr bool takes_lanes(std::index_sequence<I...>) {
  return std::is_invocable_v<const Op&, decltype(static_cast<void>(I), T{})...>;
}

// What is wrong with a definition is said here, before a kernel is made of it.
template <class Op>
constexpr void check_definition() {
  static_assert(Op::parameters.size() <= kMaxParameters, "an operator has too many parameters");
  if constexpr (Op::kind == OpKind::Elementwise) {
    static_assert(Op::inputs.size() == Op::num_inputs, "an operator has a name for each input");
    static_assert(Op::num_outputs == 1, "an elementwise operator has one output");
    if constexpr (Op::parameters.size() == 0 && Op::extra == Extra::None) {
      using Inputs = std::make_index_sequence<Op::num_inputs>;
      static_assert(takes_lanes<Op, float>(Inputs{}) || takes_lanes<Op, int64_t>(Inputs{}),
                    "a functor takes one argument for each input, all of one type");
    }
  }
}

template <class Op>
constexpr OpInfo info_of() {
  check_definition<Op>();
  OpInfo info{.name = Op::name,
              .doc = Op::doc,
              .torch_name = Op::name,
              .kind = Op::kind,
              .num_inputs = Op::num_inputs,
              .num_outputs = Op::num_outputs,
              .inputs = {},
              .promoted_inputs = Op::promoted_inputs,
              .bool_inputs = Op::bool_inputs,
              .number_inputs = 0,
              .unread_inputs = 0,
              .wide_inputs = 0,
              .numbers_must_fit = false,
              .refuses = nullptr,
              .num_parameters = static_cast<int>(Op::parameters.size()),
              .parameters = {},
              .refuses_parameters = nullptr,
              .rounds_parameters = false,
              .promotion = Op::promotion,
              .dtypes = Op::dtypes,
              .number_dtypes = {},
              .beyond_torch = {},
              .rounding_parameter = -1,
              .rounded_dtypes = {},
              .extra = Extra::None,
              .reduction = {},
              .variants = Op::variants,
              .moves_bits = Op::moves_bits,
              .converts_lanes = converts_lanes<Op>(),
              .preserves_strides = false,
              .preserves_gaps = false,
              .autocast = {},
              .cost = Op::cost};
  if constexpr (requires { Op::torch_name; }) info.torch_name = Op::torch_name;
  if constexpr (requires { Op::autocast; }) info.autocast = Op::autocast;
  if constexpr (requires { Op::beyond_torch; }) info.beyond_torch = Op::beyond_torch;
  if constexpr (Op::kind == OpKind::Elementwise) {
    info.number_inputs = Op::number_inputs;
    info.unread_inputs = Op::unread_inputs;
    info.wide_inputs = Op::wide_inputs;
    info.numbers_must_fit = Op::numbers_must_fit;
    info.refuses = Op::refuses;
    info.rounding_parameter = Op::rounding_parameter;
    info.rounded_dtypes = Op::rounded_dtypes;
    info.number_dtypes = Op::number_dtypes;
    info.refuses_parameters = Op::refuses_parameters;
    info.rounds_parameters = Op::rounds_parameters;
    info.extra = Op::extra;
    info.preserves_strides = Op::preserves_strides;
    info.preserves_gaps = Op::preserves_gaps;
  }
  if constexpr (requires { Op::facts; }) info.reduction = Op::facts;
  for (size_t i = 0; i < Op::inputs.size(); ++i) info.inputs[i] = Op::inputs[i];
  for (size_t i = 0; i < Op::parameters.size(); ++i) info.parameters[i] = Op::parameters[i];
  return info;
}

// Every common dtype that an elementwise operator computes in some call.
template <class Op>
inline constexpr DTypeSet kDTypesOf = Op::dtypes | Op::rounded_dtypes | Op::number_dtypes;

// How many of an operator's parameters are numbers that its functor takes after the tensor
// operands.
template <class Op>
constexpr size_t number_parameters() {
  size_t count = 0;
  for (const Parameter& parameter : Op::parameters) count += reaches_functor(parameter.kind);
  return count;
}

// A list of operator types, folded over by the kernel tables and the registration.
template <class... Ops>
struct OpList {
  static constexpr int size = sizeof...(Ops);
  static constexpr std::array<OpInfo, sizeof...(Ops)> infos{info_of<Ops>()...};

  // Reductions of one name differ in their overload.
  static constexpr bool have_names_of_their_own() {
    for (size_t i = 0; i < infos.size(); ++i) {
      for (size_t k = 0; k < i; ++k) {
        const std::string_view name = infos[i].name, overload = infos[i].reduction.overload;
        if (name == infos[k].name && overload == infos[k].reduction.overload) return false;
      }
    }
    return true;
  }
};

}  // namespace iterlab
