// From a list of reductions to a table of their kernels.
#pragma once

#include "engine/cuda/kernel_list.cuh"
#include "engine/cuda/reduce.cuh"

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

template <class Op, class Projection, class C>
FormKernels form_kernels() {
  if constexpr (reduces<Op, C>()) {
    constexpr int V = group_width(sizeof(C));
    const void* outer = nullptr;
    const void* outer_of_halves = nullptr;
    const void* short_inner = nullptr;
    if constexpr (!is_rare<C>) {
      constexpr int kWidth = outer_width(sizeof(C));
      outer = reinterpret_cast<const void*>(&reduce_outer_kernel<Op, Projection, C, kWidth>);
      if constexpr (std::is_same_v<C, float>) {
        constexpr int kOfHalves = outer_width(sizeof(Half));
        outer_of_halves =
            reinterpret_cast<const void*>(&reduce_outer_kernel<Op, Projection, C, kOfHalves>);
      }
      short_inner = reinterpret_cast<const void*>(&reduce_short_kernel<Op, Projection, C>);
    }
    return {{reinterpret_cast<const void*>(&reduce_inner_kernel<Op, Projection, C, V>), outer,
             short_inner},
            outer_of_halves,
            hot_elements<C>,
            sizeof(typename Reducer<Op, Projection, C>::State),
            max_chunks(resident_inner<Reducer<Op, Projection, C>, C>),
            max_chunks(resident_outer<Reducer<Op, Projection, C>, C>)};
  } else {
    return {};
  }
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
