// The kernel tables of reductions: which loops an operator has for each type of elements.
#pragma once

#include "engine/cpu/kernel_table.h"
#include "engine/cpu/reduce_exact.h"
#include "engine/cpu/reduce_ordered.h"
#include "engine/cpu/reduce_positions.h"
#include "iterlab/op.h"

namespace iterlab::cpu {
inline namespace CPU_CAPABILITY {

// The unsigned type of an integer's width; other types are themselves.
template <class T>
struct Signless {
  using Type = T;
};
template <class T>
  requires(std::is_integral_v<T>)
struct Signless<T> {
  using Type = formulas::Bits<T>;
};

// The loops of formula F for elements E of operator Op.
template <class Op, class F, class E>
struct LoopsFor {
  using T = AccumulateType<Op, E>;
  using Formula = formulas::FormulaOf<F, T>;
  using Bits = ExactLoops<Formula, typename Signless<E>::Type, typename Signless<T>::Type>;
  using Type =
      std::conditional_t<std::is_integral_v<T>,
                         std::conditional_t<Formula::kSignless, Bits, ExactLoops<Formula, E, T>>,
                         OrderedLoops<Formula, E, T>>;
  static constexpr int64_t lanes = std::is_integral_v<T> ? 1 : kLanes;
  static constexpr int64_t components = Formula::components;
  static constexpr int64_t bytes[2] = {sizeof(T), sizeof(T)};
};
template <class Op, class F, class E>
  requires requires { F::kPosition; }
struct LoopsFor<Op, F, E> {
  using Type = PositionLoops<F, E>;
  static constexpr int64_t lanes = 1;
  static constexpr int64_t components = 2;
  static constexpr int64_t bytes[2] = {sizeof(int64_t), sizeof(E)};
};

// The largest of truth values is whether any is true, the smallest whether all are; so are the
// bitwise or and and.
template <class F>
struct OfTruth;
template <>
struct OfTruth<formulas::Maximum> {
  using Formula = formulas::Any;
};
template <>
struct OfTruth<formulas::Minimum> {
  using Formula = formulas::All;
};
template <>
struct OfTruth<formulas::MinimumAndMaximum> {
  using Formula = formulas::AllAndAny;
};
template <>
struct OfTruth<formulas::BitwiseOr> {
  using Formula = formulas::Any;
};
template <>
struct OfTruth<formulas::BitwiseAnd> {
  using Formula = formulas::All;
};
template <>
struct OfTruth<formulas::BitwiseXor> {
  using Formula = formulas::Parity;
};
template <class Op, class F>
  requires requires { typename OfTruth<F>::Formula; }
struct LoopsFor<Op, F, bool> {
  using Formula = typename OfTruth<F>::Formula;
  using Type = ExactLoops<Formula, uint8_t, uint8_t>;
  static constexpr int64_t lanes = 1;
  static constexpr int64_t components = Formula::components;
  static constexpr int64_t bytes[2] = {1, 1};
};

// Whether elements of type E reach the loops: those of a dtype of the operator, in its compute type
// or, where the loops of the first variant read halves, as they are.
template <class Op, class E>
constexpr bool reads(bool first_variant) {
  constexpr DType dtype = dtype_of<E>;
  if (type_index(dtype) >= kNumComputeTypes) {
    return first_variant && Op::facts.reads_halves &&
           (dtype == DType::Half || dtype == DType::BFloat16);
  }
  bool found = false;
#define ITERLAB_FIND(type, name, text) \
  found = found || (Op::dtypes.contains(DType::name) && compute_dtype(DType::name) == dtype);
  ITERLAB_FORALL_STORAGE_TYPES(ITERLAB_FIND)
#undef ITERLAB_FIND
  return found;
}

template <class Op, class Projection, class Loops>
constexpr auto project_or_null() -> decltype(ReduceTypeKernels::project) {
  constexpr bool is_state =
      &Projection::template project<Lane<double>> == &Reduction::project<Lane<double>>;
  if constexpr (is_state && !requires { Projection::Formula::kPosition; }) {
    return nullptr;
  } else {
    return &Loops::template project<Projection, Op::num_outputs>;
  }
}

template <class Op, class Projection, class E, bool first_variant>
constexpr ReduceTypeKernels type_kernels() {
  if constexpr (reads<Op, E>(first_variant)) {
    using For = LoopsFor<Op, typename Projection::Formula, E>;
    using Loops = typename For::Type;
    ReduceTypeKernels kernels{.components = For::components,
                              .component_bytes = {For::bytes[0], For::bytes[1]},
                              .lanes = For::lanes,
                              .inner = &Loops::inner,
                              .start = &Loops::start,
                              .rows = &Loops::rows,
                              .fold = &Loops::fold,
                              .combine = &Loops::combine,
                              .project = project_or_null<Op, Projection, Loops>()};
    if constexpr (requires { &Loops::block_of_runs; }) {
      kernels.block_of_runs = &Loops::block_of_runs;
    }
    if constexpr (requires { requires Loops::stops_early; }) kernels.is_final = &Loops::is_final;
    if constexpr (For::lanes > 1) {
      kernels.few_rows = &Loops::few_rows;
      kernels.dense_rows = &Loops::dense_rows;
    }
    return kernels;
  } else {
    return {};
  }
}

template <class Op, class Projection, bool first_variant>
constexpr ReduceVariant variant_of() {
  ReduceVariant variant{};
#define ITERLAB_ENTRY(type, name, text) \
  variant.by_type[type_index(DType::name)] = type_kernels<Op, Projection, type, first_variant>();
  ITERLAB_FORALL_STORAGE_TYPES(ITERLAB_ENTRY)
#undef ITERLAB_ENTRY
  return variant;
}

template <class Op, class Projection, bool first_variant>
inline constexpr ReduceVariant kVariant = variant_of<Op, Projection, first_variant>();

template <class Op, class First, class... Others>
constexpr ReduceKernels kernels_of_variants(std::tuple<First, Others...>*) {
  return {{&kVariant<Op, First, true>, &kVariant<Op, Others, false>...}};
}

template <class Op>
constexpr ReduceKernels reduce_kernels_of() {
  if constexpr (requires { typename Op::Variants; }) {
    return kernels_of_variants<Op>(static_cast<typename Op::Variants*>(nullptr));
  } else {
    return {{&kVariant<Op, Op, true>}};
  }
}

// Appends the kernels of a list of operators to `table`, in the list's order.
template <class... Ops>
void append_kernels_of(OpList<Ops...>, const ReduceKernels**& next) {
  static constexpr ReduceKernels kernels[] = {reduce_kernels_of<Ops>()...};
  for (const ReduceKernels& one : kernels) *next++ = &one;
}

// One for each list of iterlab/ops/reduce.h, in its order, each in a file of its own.
void append_sum_kernels(const ReduceKernels**& next);
void append_extreme_kernels(const ReduceKernels**& next);
void append_position_kernels(const ReduceKernels**& next);
void append_truth_kernels(const ReduceKernels**& next);
void append_moment_kernels(const ReduceKernels**& next);
void append_norm_kernels(const ReduceKernels**& next);

}  // namespace CPU_CAPABILITY
}  // namespace iterlab::cpu
