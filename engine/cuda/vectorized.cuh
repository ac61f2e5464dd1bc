// The vectorized kernel: rows of groups, of operands whose stored types are known when it is
// compiled.
#pragma once

#include "engine/cuda/elementwise.cuh"
#include "engine/cuda/packed.cuh"

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
    if constexpr (std::is_same_v<S, BFloat16> && std::is_same_v<T, float>) {
      // The upper half of a float; one instruction for either half of a word.
      const uint32_t both = word[j / 2];
      return __uint_as_float(j % 2 == 0 ? both << 16 : both & 0xffff0000u);
    } else {
      return convert_bytes<T, S>(reinterpret_cast<const char*>(word) +
                                 j * static_cast<int>(sizeof(S)));
    }
  }

  // At a boundary of its accesses.
  __device__ __forceinline__ void load_plain(const char* data) {
    if constexpr (kBytes % 4 == 0) {
      constexpr int step = access_bytes(kBytes);
#pragma unroll
      for (int i = 0; i < kBytes; i += step) load_aligned<step>(data + i, word + i / 4);
    } else {
      load(data);
    }
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
  __device__ __forceinline__ void load(const KernelOperand& operand, const char* data,
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
  // A whole one. `data`: of group 0, at a boundary.
  __device__ __forceinline__ void load_plain(const KernelOperand& operand, int64_t group) {
    if (operand.access == Access::vectors) {
      packed.load_plain(operand.data + group * packed.kBytes);
    } else if (operand.access == Access::one) {
      packed.load_lane(operand.data, 0);
    }
  }
  __device__ __forceinline__ void finish(const KernelOperand& operand, T (&group)[V]) const {
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
  // Word w of a group of bytes.
  __device__ __forceinline__ uint32_t finish_word(const KernelOperand& operand, int w) const {
    if (operand.access == Access::vectors) return packed.word[w];
    const uint8_t x = operand.access == Access::one
                          ? static_cast<uint8_t>(packed.word[0])
                          : *reinterpret_cast<const uint8_t*>(operand.value.bytes);
    return x * 0x01010101u;
  }
};

template <class Op, class T, class In, size_t... I>
auto arrivals_of(std::index_sequence<I...>) -> std::tuple<
    Arriving<typename Functor<Op, T>::template Input<In, I>, T, stored_width(sizeof(In))>...>;

// The groups of one thread, `blockDim.x` apart.
template <class Op, class T, class In, class Out, int G>
struct RowRun {
  using F = Functor<Op, T>;
  using Args = typename F::RowArguments;
  using Inputs = std::make_index_sequence<F::kInputs>;
  using Arrivals = decltype(arrivals_of<Op, T, In>(Inputs{}));
  static constexpr int V = stored_width(sizeof(In));
  static constexpr bool kWords = computes_words<Op, T, In, Out>;

  const Args& args;

  template <size_t... I>
  __device__ __forceinline__ void load_plain(Arrivals& to, int64_t group,
                                             std::index_sequence<I...>) const {
    (std::get<I>(to).load_plain(args.operands[I + 1], group), ...);
  }
  template <size_t... I>
  __device__ __forceinline__ void apply(const Arrivals& from, typename F::Result (&out)[V],
                                        std::index_sequence<I...>) const {
    T in[F::kInputs][V];
    (std::get<I>(from).finish(args.operands[I + 1], in[I]), ...);
    F::template apply<V>(args.parameters, in, out);
  }
  template <size_t... I>
  __device__ __forceinline__ void store_words(const Arrivals& from, char* to,
                                              std::index_sequence<I...>) const {
    const T parameter = *reinterpret_cast<const T*>(args.parameters.slots[0].bytes);
    uint32_t out[V / 4];
#pragma unroll
    for (int w = 0; w < V / 4; ++w) {
      out[w] =
          word_formula<Op, T>(parameter, std::get<I>(from).finish_word(args.operands[I + 1], w)...);
    }
    store_aligned(to, out);
  }

  // Of blocks all of whose groups are whole and at boundaries. While a group is computed, the next
  // one is on its way.
  __device__ __forceinline__ void plain(int64_t unit) const {
    Arrivals arriving, next;
    load_plain(arriving, unit, Inputs{});
#pragma unroll 1
    for (int g = 0; g < G; ++g, unit += blockDim.x) {
      if (g + 1 < G) load_plain(next, unit + blockDim.x, Inputs{});
      char* const to = args.operands[0].data + unit * (V * static_cast<int>(sizeof(Out)));
      if constexpr (kWords) {
        store_words(arriving, to, Inputs{});
      } else {
        typename F::Result out[V];
        apply(arriving, out, Inputs{});
        if constexpr (fills_words(V, sizeof(Out))) {
          store_contiguous<Out>(to, out, true);
        } else {
          store_group<Out>(to, Extent{0, V}, out);
        }
      }
      if (g + 1 < G) arriving = next;
    }
  }

  template <size_t... I>
  __device__ __forceinline__ void any(int64_t unit, std::index_sequence<I...>) const {
#pragma unroll 1
    for (int g = 0; g < G; ++g, unit += blockDim.x) {
      const RowGroup<Args, V> place(args, unit);
      if (!place.exists()) continue;
      const auto data = [&](int i, int size) {
        const bool moves = args.operands[i].access == Access::vectors;
        return args.operands[i].data + place.offsets[i] + (moves ? place.first * size : 0);
      };
      Arrivals arriving;
      (std::get<I>(arriving).load(
           args.operands[I + 1],
           data(I + 1, static_cast<int>(sizeof(typename F::template Input<In, I>))), place.extent),
       ...);
      char* const to = data(0, static_cast<int>(sizeof(Out)));
      if constexpr (kWords) {
        if (place.extent.template whole<V>()) {
          store_words(arriving, to, Inputs{});
          continue;
        }
      }
      typename F::Result out[V];
      apply(arriving, out, Inputs{});
      store_group<Out>(to, place.extent, out);
    }
  }
};

template <class Op, class T, class In, class Out, int G>
__global__ void __launch_bounds__(kBlockThreads, Functor<Op, T>::kFullBlocks)
    vectorized_kernel(const __grid_constant__ typename Functor<Op, T>::RowArguments args) {
  using Run = RowRun<Op, T, In, Out, G>;
  const Run run{args};
  let_next_start();
  const int64_t first = static_cast<int64_t>(blockIdx.x) * (blockDim.x * G);
  const int64_t unit = first + threadIdx.x;
  wait_for_earlier();
  if (args.plain && (first + blockDim.x * G) * Run::V <= args.sizes[0]) {
    run.plain(unit);
  } else {
    run.any(unit, typename Run::Inputs{});
  }
}

}  // namespace iterlab::cuda
