// The tiled kernel: operands that are fastest along another dim than the output pass through square
// tiles in shared memory.
#pragma once

#include "engine/cuda/elementwise.cuh"

namespace iterlab::cuda {

// Note [Tiles]
// A tile is kEdge elements along loop dims 0 and 1. An operand with unit stride along dim 1 is read
// in vectors along it, converted, and written to shared memory as [dim 1][dim 0]; the others are
// read in vectors along dim 0 into registers meanwhile. After the barrier every thread has its
// groups along dim 0. Rows of shared memory are an odd number of words apart, so that neither side
// meets worse than a 2-way bank conflict: at 4 bytes an element that allows 1.8e12 elements a
// second on an H200, five times what its memory delivers.
template <class T>
struct TileShape {
  static constexpr int kEdge = tile_edge(sizeof(T));
  static constexpr int kWidth = group_width(sizeof(T));
  static constexpr int kPerLine = kEdge / kWidth;
  static constexpr int kRounds = kEdge * kPerLine / kBlockThreads;
  static_assert(kRounds >= 1 && kEdge * kPerLine % kBlockThreads == 0);
  static constexpr int kPitch = tile_pitch(sizeof(T));
};

// The group that thread `threadIdx.x` takes in a round: its line, and its first element there.
template <class T>
struct TilePlace {
  int line, first;
  __device__ __forceinline__ explicit TilePlace(int round) {
    const int group = static_cast<int>(threadIdx.x) + round * kBlockThreads;
    line = group / TileShape<T>::kPerLine;
    first = group % TileShape<T>::kPerLine * TileShape<T>::kWidth;
  }
  // What exists of the group in a tile of `lines` x `length` elements.
  __device__ __forceinline__ Extent extent(int64_t lines, int64_t length) const {
    const int64_t rest = line < lines ? length - first : 0;
    return {0, rest < 0                      ? 0
               : rest < TileShape<T>::kWidth ? static_cast<int>(rest)
                                             : TileShape<T>::kWidth};
  }
};

// One tile of every operand.
template <class Op, class T>
struct TileRun {
  using F = Functor<Op, T>;
  using Shape = TileShape<T>;
  static constexpr int N = F::kOperands, V = Shape::kWidth, kRounds = Shape::kRounds;
  template <size_t k>
  using Loads = Incoming<F::input_types(k), T, V>;

  const NestedArguments<N>& args;
  int64_t rest0, rest1;  // elements from the tile's corner to the edges
  int64_t offsets[N];

  __device__ __forceinline__ explicit TileRun(const NestedArguments<N>& arguments)
      : args(arguments), offsets{} {
    const uint32_t tile = blockIdx.x;
    const uint32_t row = args.row_divider.divide(tile);
    const uint32_t slab = args.slab_divider.divide(row);
    const int64_t start0 =
        static_cast<int64_t>(tile - row * args.row_divider.divisor) * Shape::kEdge;
    const int64_t start1 =
        static_cast<int64_t>(row - slab * args.slab_divider.divisor) * Shape::kEdge;
    rest0 = args.sizes[0] - start0;
    rest1 = args.sizes[1] - start1;
    add_offsets(args, 2, slab, offsets);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      offsets[i] += start0 * args.operands[i].strides[0] + start1 * args.operands[i].strides[1];
    }
  }

  __device__ __forceinline__ bool across(int i) const {
    return args.operands[i].access == Access::shared;
  }
  // Operand i's group of a round: where its element 0 is, how far the next, and what exists of it.
  __device__ __forceinline__ char* data(int i, TilePlace<T> place) const {
    const NestedOperand& operand = args.operands[i];
    const bool along1 = across(i);
    return operand.data + offsets[i] + place.first * operand.strides[along1] +
           place.line * operand.strides[!along1];
  }
  __device__ __forceinline__ Extent extent(int i, TilePlace<T> place) const {
    return across(i) ? place.extent(rest0, rest1) : place.extent(rest1, rest0);
  }

  template <size_t k>
  __device__ __forceinline__ void load(Loads<k> (&incoming)[kRounds]) const {
#pragma unroll
    for (int round = 0; round < kRounds; ++round) {
      const TilePlace<T> place(round);
      incoming[round].load(args.operands[k + 1], data(k + 1, place), extent(k + 1, place));
    }
  }
  template <size_t k>
  __device__ __forceinline__ void finish(Loads<k>& incoming, int round, T (&group)[V]) const {
    const TilePlace<T> place(round);
    incoming.finish(args.operands[k + 1], data(k + 1, place),
                    args.operands[k + 1].strides[across(k + 1)], extent(k + 1, place), group);
  }
  template <size_t k>
  __device__ __forceinline__ void place_shared(Loads<k> (&incoming)[kRounds], T* tile) const {
    if (!across(k + 1)) return;
#pragma unroll
    for (int round = 0; round < kRounds; ++round) {
      T group[V];
      finish<k>(incoming[round], round, group);
      const TilePlace<T> place(round);
#pragma unroll
      for (int j = 0; j < V; ++j) tile[(place.first + j) * Shape::kPitch + place.line] = group[j];
    }
  }
  template <size_t k>
  __device__ __forceinline__ void take(Loads<k>& incoming, int round, const T* tile,
                                       T (&group)[V]) const {
    if (!across(k + 1)) return finish<k>(incoming, round, group);
    const TilePlace<T> place(round);
#pragma unroll
    for (int j = 0; j < V; ++j) group[j] = tile[place.line * Shape::kPitch + place.first + j];
  }
};

template <class Op, class T, size_t... I>
__device__ __forceinline__ void run_tile(const NestedArguments<Functor<Op, T>::kOperands>& args,
                                         std::index_sequence<I...>) {
  using Run = TileRun<Op, T>;
  using F = Functor<Op, T>;
  constexpr int V = Run::V;
  extern __shared__ char shared_bytes[];
  const Run run(args);
  // The shared tiles of the operands that have one, in their order.
  T* tiles[F::kInputs];
  T* next = reinterpret_cast<T*>(shared_bytes);
#pragma unroll
  for (int k = 0; k < F::kInputs; ++k) {
    tiles[k] = next;
    if (run.across(k + 1)) next += TileShape<T>::kEdge * TileShape<T>::kPitch;
  }
  std::tuple<typename Run::template Loads<I>[Run::kRounds]...> incoming;
  (run.template load<I>(std::get<I>(incoming)), ...);
  (run.template place_shared<I>(std::get<I>(incoming), tiles[I]), ...);
  __syncthreads();
#pragma unroll
  for (int round = 0; round < Run::kRounds; ++round) {
    const TilePlace<T> place(round);
    T in[F::kInputs][V];
    (run.template take<I>(std::get<I>(incoming)[round], round, tiles[I], in[I]), ...);
    typename F::Result out[V];
    F::template apply<V>(args.parameters, in, out);
    store_operand<F::output_types()>(args.operands[0], run.data(0, place),
                                     args.operands[0].strides[0], run.extent(0, place), out);
  }
}

template <class Op, class T, int V>
__global__ void __launch_bounds__(kBlockThreads, Functor<Op, T>::kResidentBlocks)
    tiled_kernel(const __grid_constant__ NestedArguments<Functor<Op, T>::kOperands> args) {
  run_tile<Op, T>(args, std::make_index_sequence<Op::num_inputs>{});
}

}  // namespace iterlab::cuda
