// From a list of operators to a table of their kernels.
#pragma once

#include "engine/cuda/boxes.cuh"
#include "engine/cuda/tiled.cuh"

namespace iterlab::cuda {

// Whether some dtype of the operator is computed in T. An operator that moves bits computes each
// dtype in its compute type where operands differ, and on unsigned numbers of its width where not.
template <class Op, class T>
constexpr bool computes_in() {
  bool found = Op::moves_bits;
#define ITERLAB_FIND(type, dtype, text) \
  found = found ||                      \
          (kDTypesOf<Op>.contains(DType::dtype) && compute_dtype(DType::dtype) == dtype_of<T>);
  ITERLAB_FORALL_STORAGE_TYPES(ITERLAB_FIND)
#undef ITERLAB_FIND
  return found;
}

// Types of which calls are too few to compile more than the kernels that every type has.
template <class T>
inline constexpr bool is_rare =
    std::is_same_v<T, uint16_t> || std::is_same_v<T, uint32_t> || std::is_same_v<T, uint64_t>;

// Note [Kernels that pay]
// Every compute type of an operator has the generic kernel, which can take any call. The others are
// compiled where calls come to them, and where memory is what they wait for: not for rare types;
// for operands of several stored types where promotion brings some together; tiles and boxes where
// inputs can be laid out in different ways, and the formula is short.
template <class Op, class T>
inline constexpr bool has_vectorized = Op::moves_bits || !is_rare<T>;

template <class Op, class T>
inline constexpr bool has_strided =
    Op::promotion == Promotion::ToArgument || std::is_same_v<T, float> ||
    std::is_same_v<T, double> || std::is_same_v<T, int64_t>;

// Operators that are little more than their loads and stores.
template <class Op>
inline constexpr bool is_arithmetic =
    Op::num_inputs == 2 && Op::promotion == Promotion::Default && Op::cost < 2;

template <class Op, class T>
inline constexpr bool has_tiled =
    Op::moves_bits || (std::is_same_v<T, float> && Op::num_inputs > 1 && Op::cost < 20) ||
    (is_arithmetic<Op> && !is_rare<T> && !is_complex_v<T>);

template <class Op, class T, class In, class Out = typename Functor<Op, T>::template Output<In>>
StoredKernels kernels_of_stored() {
  constexpr int G = stored_groups(sizeof(In), Op::cost);
  StoredKernels kernels{type_index(dtype_of<In>), type_index(dtype_of<Out>), sizeof(In), G};
  kernels.vectorized = reinterpret_cast<const void*>(&vectorized_kernel<Op, T, In, Out, G>);
  if constexpr (has_tiled<Op, T> && (std::is_same_v<T, In> || is_arithmetic<Op>)) {
    kernels.tiled = reinterpret_cast<const void*>(&tiled_kernel<Op, T, In, Out, true>);
    kernels.tiled_each = reinterpret_cast<const void*>(&tiled_kernel<Op, T, In, Out, false>);
    kernels.boxes = reinterpret_cast<const void*>(&box_kernel<Op, T, In, Out>);
    kernels.tile_inputs = std::is_same_v<In, T> ? tile_inputs<T> : types<In>;
  }
  return kernels;
}

template <class Op, class T>
ElementwiseKernels kernels_of_type() {
  ElementwiseKernels kernels{};
  if constexpr (computes_in<Op, T>()) {
    if constexpr (has_vectorized<Op, T>) kernels.stored[0] = kernels_of_stored<Op, T, T>();
    if constexpr (std::is_same_v<T, float> && Op::promotion == Promotion::ToArgument) {
      kernels.stored[1] = kernels_of_stored<Op, T, float, Half>();
      kernels.stored[2] = kernels_of_stored<Op, T, float, BFloat16>();
    } else if constexpr (std::is_same_v<T, float>) {
      kernels.stored[1] = kernels_of_stored<Op, T, Half>();
      kernels.stored[2] = kernels_of_stored<Op, T, BFloat16>();
    }
    if constexpr (has_strided<Op, T>) {
      constexpr int V = group_width(sizeof(T));
      kernels.strided = reinterpret_cast<const void*>(&strided_kernel<Op, T, V>);
    }
    kernels.generic = reinterpret_cast<const void*>(&generic_kernel<Op, T, kGenericWidth>);
  }
  return kernels;
}

template <class Op>
OpKernels kernels_of() {
#define ITERLAB_ENTRY(type, dtype, text) kernels_of_type<Op, type>(),
  return {{ITERLAB_FORALL_COMPUTE_TYPES(ITERLAB_ENTRY)}};
#undef ITERLAB_ENTRY
}

// Appends the kernels of a list of operators to `next`, in the list's order.
template <class... Ops>
void append_kernels(OpList<Ops...>, const OpKernels**& next) {
  static const OpKernels kernels[] = {kernels_of<Ops>()...};
  for (const OpKernels& one : kernels) *next++ = &one;
}

}  // namespace iterlab::cuda
