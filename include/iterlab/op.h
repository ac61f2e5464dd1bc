// What an operator is: the facts that its definition states once (OpInfo), and the base classes
// that supply defaults.
#pragma once

#include "iterlab/reduce_facts.h"

#include <array>
#include <string_view>

namespace iterlab {

// How the result dtype follows from the common dtype of the promoted inputs (torch's promotion
// kinds).
enum class Promotion : uint8_t {
  Default,        // result = common dtype
  IntToFloat,     // integers and bool compute and return the default dtype
  AlwaysBool,     // computes in the common dtype, returns bool
  ComplexToReal,  // computes in the common dtype, returns its real dtype
  ToArgument,     // returns the dtype that an argument names (a cast)
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
};

struct Parameter {
  const char* name = nullptr;
  ParameterKind kind = ParameterKind::Scalar;
  const char* default_value = nullptr;  // as the schema spells it; null: required
  bool keyword_only = false;
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
      promoted_inputs;   // bit i: input i takes part in promotion and is cast to the common dtype
  uint32_t bool_inputs;  // bit i: input i must be bool (or uint8, as torch allows)
  int num_parameters;
  std::array<Parameter, kMaxParameters> parameters;
  Promotion promotion;
  DTypeSet dtypes;  // common dtypes that the operator computes
  ReduceFacts reduction;
  uint8_t variants;
  bool moves_bits;  // only moves values: computed on raw bits of the element's width, whatever the
                    // dtype
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
  static constexpr std::array<Parameter, 0> parameters{};
  static constexpr Promotion promotion = Promotion::Default;
  static constexpr DTypeSet dtypes = kAllButFloat8;
  static constexpr uint8_t variants = kAllVariants;
  static constexpr bool moves_bits = false;
  static constexpr double cost = 1;
};

struct Unary : Elementwise<1> {
  static constexpr std::array inputs{"input"};
};
struct Binary : Elementwise<2> {
  static constexpr std::array inputs{"input", "other"};
};
struct Ternary : Elementwise<3> {};

template <class Op>
constexpr OpInfo info_of() {
  OpInfo info{.name = Op::name,
              .doc = Op::doc,
              .torch_name = Op::name,
              .kind = Op::kind,
              .num_inputs = Op::num_inputs,
              .num_outputs = Op::num_outputs,
              .inputs = {},
              .promoted_inputs = Op::promoted_inputs,
              .bool_inputs = Op::bool_inputs,
              .num_parameters = static_cast<int>(Op::parameters.size()),
              .parameters = {},
              .promotion = Op::promotion,
              .dtypes = Op::dtypes,
              .reduction = {},
              .variants = Op::variants,
              .moves_bits = Op::moves_bits,
              .autocast = {},
              .cost = Op::cost};
  if constexpr (requires { Op::torch_name; }) info.torch_name = Op::torch_name;
  if constexpr (requires { Op::autocast; }) info.autocast = Op::autocast;
  if constexpr (requires { Op::facts; }) info.reduction = Op::facts;
  for (size_t i = 0; i < Op::inputs.size(); ++i) info.inputs[i] = Op::inputs[i];
  for (size_t i = 0; i < Op::parameters.size(); ++i) info.parameters[i] = Op::parameters[i];
  return info;
}

// How many of an operator's parameters are numbers that its functor takes after the tensor
// operands.
template <class Op>
constexpr size_t number_parameters() {
  size_t count = 0;
  for (const Parameter& parameter : Op::parameters) count += parameter.kind != ParameterKind::DType;
  return count;
}

// A list of operator types, folded over by the kernel tables and the registration.
template <class... Ops>
struct OpList {
  static constexpr int size = sizeof...(Ops);
  static constexpr std::array<OpInfo, sizeof...(Ops)> infos{info_of<Ops>()...};
};

}  // namespace iterlab
