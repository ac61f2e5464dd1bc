// The vectorized kernel: rows of groups, of operands whose stored types are known when it is
// compiled.
#pragma once

#include "engine/cuda/elementwise.cuh"

namespace iterlab::cuda {

// Note [Stored types of the fast kernels]
// Most calls have operands of one dtype. Their kernels are compiled for it: no switch stands before
// a load, and a thread has few registers, so that an SM holds all its threads and their loads.
// Calls that mix dtypes take the strided kernel, whatever the plan's path.

// A group as it is stored.
template <class S, int V>
struct Packed {
  static constexpr int kBytes = V * static_cast<int>(sizeof(S));
  uint32_t word[(kBytes + 3) / 4];

  __device__ __forceinline__ char* bytes() { return reinterpret_cast<char*>(word); }
  template <class T>
  __device__ __forceinline__ T lane(int j) const {
    return convert_bytes<T, S>(reinterpret_cast<const char*>(word) +
                               j * static_cast<int>(sizeof(S)));
  }

  __device__ __forceinline__ void load(const char* data) {
    if constexpr (kBytes % 4 == 0) {
      const Words<kBytes> words = load_words<kBytes>(data);
#pragma unroll
      for (int i = 0; i < kBytes / 4; ++i) word[i] = words.word[i];
    } else {
#pragma unroll
      for (int j = 0; j < V; ++j) load_lane(data, j);
    }
  }
  __device__ __forceinline__ void load_lane(const char* data, int j) {
    reinterpret_cast<Bits<S>*>(word)[j] = reinterpret_cast<const Bits<S>*>(data)[j];
  }

 private:
  template <class E>
  using Bits = std::conditional_t<std::is_same_v<E, bool>, uint8_t, E>;
};

template <class S, class T, int V>
__device__ __forceinline__ void store_group(char* data, Extent extent, const T (&group)[V]) {
  if constexpr (fills_words(V, sizeof(S))) {
    if (extent.whole<V>()) return store_contiguous<S>(data, group);
  }
#pragma unroll
  for (int j = 0; j < V; ++j) {
    if (extent.has(j)) reinterpret_cast<S*>(data)[j] = convert<S>(group[j]);
  }
}

// An input's group on its way into registers. Note [Load, then convert]
template <class S, class T, int V>
struct Arriving {
  Packed<S, V> packed;

  // `data`: of lane 0.
  __device__ __forceinline__ void load(const FlatOperand& operand, const char* data,
                                       Extent extent) {
    if (operand.access == Access::vectors) {
      if (extent.whole<V>()) {
        packed.load(data);
      } else {
#pragma unroll
        for (int j = 0; j < V; ++j) {
          if (extent.has(j)) packed.load_lane(data, j);
        }
      }
    } else if (operand.access == Access::one) {
      packed.load_lane(data, 0);
    }
  }
  __device__ __forceinline__ void finish(const FlatOperand& operand, T (&group)[V]) const {
    if (operand.access == Access::vectors) {
#pragma unroll
      for (int j = 0; j < V; ++j) group[j] = packed.template lane<T>(j);
    } else {
      const T x = operand.access == Access::one ? packed.template lane<T>(0)
                                                : *reinterpret_cast<const T*>(operand.value.bytes);
#pragma unroll
      for (int j = 0; j < V; ++j) group[j] = x;
    }
  }
};

template <class Op, class T, class In, class Out, int V, size_t... I>
__device__ __forceinline__ void run_row_group(
    const NestedArguments<Functor<Op, T>::kOperands>& args, std::index_sequence<I...>) {
  using F = Functor<Op, T>;
  const RowGroup<F::kOperands, V> place(args);
  if (!place.exists()) return;
  const auto data = [&](int i, int size) {
    const bool moves = args.operands[i].access == Access::vectors;
    return args.operands[i].data + place.offsets[i] + (moves ? place.first * size : 0);
  };
  std::tuple<Arriving<typename F::template Input<In, I>, T, V>...> arriving;
  (std::get<I>(arriving).load(
       args.operands[I + 1],
       data(I + 1, static_cast<int>(sizeof(typename F::template Input<In, I>))), place.extent),
   ...);
  T in[F::kInputs][V];
  (std::get<I>(arriving).finish(args.operands[I + 1], in[I]), ...);
  typename F::Result out[V];
  F::template apply<V>(args.parameters, in, out);
  store_group<Out>(data(0, static_cast<int>(sizeof(Out))), place.extent, out);
}

template <class Op, class T, class In, class Out, int V>
__global__ void __launch_bounds__(kBlockThreads, Functor<Op, T>::kFullBlocks)
    vectorized_kernel(const __grid_constant__ NestedArguments<Functor<Op, T>::kOperands> args) {
  run_row_group<Op, T, In, Out, V>(args, std::make_index_sequence<Op::num_inputs>{});
}

}  // namespace iterlab::cuda
