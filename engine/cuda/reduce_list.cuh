// From a list of reductions to a table of their kernels.
#pragma once

#include "engine/cuda/kernel_list.cuh"
#include "engine/cuda/reduce.cuh"
#include "engine/cuda/reduce_few_rows.cuh"
#include "engine/cuda/reduce_merged.cuh"

#include <tuple>

namespace iterlab::cuda {

// Whether elements of some dtype of the reduction have the compute type C.
template <class Op, class C>
constexpr bool reduces() {
  bool found = false;
#define ITERLAB_FIND(type, dtype, text) \
  found =                               \
      found || (Op::dtypes.contains(DType::dtype) && compute_dtype(DType::dtype) == dtype_of<C>);
  ITERLAB_FORALL_STORAGE_TYPES(ITERLAB_FIND)
#undef ITERLAB_FIND
  return found;
}

inline const void* entry(void (*kernel)(ReduceArguments)) {
  return reinterpret_cast<const void*>(kernel);
}

template <class Op, class Projection, class C>
FormKernels form_kernels() {
  FormKernels kernels{};
  if constexpr (reduces<Op, C>()) {
    using R = Reducer<Op, Projection, C>;
    constexpr auto of_form = [](ReduceForm form) { return static_cast<size_t>(form); };
    const void*(&by_form)[kReduceFormNames.size()] = kernels.by_form;
    by_form[of_form(ReduceForm::inner)] =
        entry(&reduce_inner_kernel<Op, Projection, C, group_width(sizeof(C))>);
    if constexpr (!is_rare<C>) {
      constexpr int kWidth = outer_width(sizeof(C)), kOfHalves = outer_width(sizeof(Half));
      constexpr bool halves = std::is_same_v<C, float>;
      by_form[of_form(ReduceForm::outer)] = entry(&reduce_outer_kernel<Op, Projection, C, kWidth>);
      if constexpr (sizeof(C) > 1)
        kernels.few_rows = entry(&reduce_few_rows_kernel<Op, Projection, C, kWidth>);
      if constexpr (halves) {
        kernels.outer_of_halves = entry(&reduce_outer_kernel<Op, Projection, C, kOfHalves>);
        kernels.few_rows_of_halves = entry(&reduce_few_rows_kernel<Op, Projection, C, kOfHalves>);
      }
      by_form[of_form(ReduceForm::short_inner)] = entry(&reduce_short_kernel<Op, Projection, C>);
      kernels.short_outer = entry(&reduce_short_outer_kernel<Op, Projection, C>);
      if constexpr (merges_rows<R>) {
        kernels.merged = entry(&reduce_merged_kernel<Op, Projection, C, kWidth>);
        if constexpr (halves)
          kernels.merged_of_halves = entry(&reduce_merged_kernel<Op, Projection, C, kOfHalves>);
      }
    }
    kernels.usual_types = hot_elements<C>;
    kernels.state_bytes = sizeof(typename R::State);
    kernels.most_group_chunks = max_chunks(resident_inner<R, C>);
    kernels.most_row_chunks = max_chunks(resident_outer<R, C>);
  }
  return kernels;
}

template <class Op, class Projection>
const ReduceVariant* variant_of() {
#define ITERLAB_ENTRY(type, dtype, text) form_kernels<Op, Projection, type>(),
  static const ReduceVariant variant{{ITERLAB_FORALL_COMPUTE_TYPES(ITERLAB_ENTRY)}};
#undef ITERLAB_ENTRY
  return &variant;
}

template <class Op, class... Projections>
ReduceKernels kernels_of_variants(std::tuple<Projections...>*) {
  return {{variant_of<Op, Projections>()...}};
}

template <class Op>
ReduceKernels reduce_kernels_of() {
  if constexpr (requires { typename Op::Variants; }) {
    return kernels_of_variants<Op>(static_cast<typename Op::Variants*>(nullptr));
  } else {
    return {{variant_of<Op, Op>()}};
  }
}

// Appends the kernels of a list of reductions to `next`, in the list's order.
template <class... Ops>
void append_reduce_kernels(OpList<Ops...>, const ReduceKernels**& next) {
  static const ReduceKernels kernels[] = {reduce_kernels_of<Ops>()...};
  for (const ReduceKernels& one : kernels) *next++ = &one;
}

}  // namespace iterlab::cuda
