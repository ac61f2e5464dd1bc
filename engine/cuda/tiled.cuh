// The tiled kernel: operands that are fastest along another dim than the output pass through tiles
// in shared memory.
#pragma once

#include "engine/cuda/vectorized.cuh"

namespace iterlab::cuda {

// Note [Tiles]
// A tile is kEdge0 elements along loop dim 0 and kEdge1 along loop dim 1. An operand with unit
// stride along dim 1 is read along it in 16-byte vectors and written to shared memory as
// [dim 1][dim 0], in words: of elements narrower than a word, as many lines as fill one are brought
// together, so that a byte costs a quarter of an access. The others are read along dim 0 into
// registers meanwhile. After the barrier every thread has its vectors along dim 0.
// Rows of shared memory are one word more than a multiple of 32 apart. Lanes of a warp are kAcross
// vectors of neighbouring lines when they write and 8 vectors of 4 lines when they read, which
// meets no bank conflict.
template <class S>
struct TileShape {
  static constexpr int kSize = sizeof(S);
  using Word =
      std::conditional_t<kSize <= 4, uint32_t, std::conditional_t<kSize == 8, uint2, uint4>>;
  static constexpr int kEdge0 = tile_edge0(kSize), kEdge1 = tile_edge1(kSize);
  static constexpr int kWidth = 16 / kSize;                 // elements of a vector
  static constexpr int kLines = kSize < 4 ? 4 / kSize : 1;  // elements of a word, at least 1
  static constexpr int kPitch = kEdge0 / kLines + 1;        // words
  static constexpr int kWords = 16 / static_cast<int>(sizeof(Word));  // of a vector
  static constexpr int kAcross = kWidth >= 8 ? 32 / kWidth : 8;
  static constexpr int kReads = kEdge0 / kLines * (kEdge1 / kWidth) / kBlockThreads;
  static constexpr int kWrites = kEdge1 * (kEdge0 / kWidth) / kBlockThreads;
  static_assert(kReads >= 1 && kWrites >= 1);
  static_assert(kEdge1 * kPitch * static_cast<int>(sizeof(Word)) == tile_bytes(kSize));
};

// The words of kLines lines (each 16 bytes): word i holds element i of every line.
template <class S>
__device__ __forceinline__ void interleave(const uint32_t (&line)[TileShape<S>::kLines][4],
                                           typename TileShape<S>::Word (&out)[16 / sizeof(S)]) {
  if constexpr (sizeof(S) == 1) {
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      const uint32_t low01 = __byte_perm(line[0][w], line[1][w], 0x5140);
      const uint32_t low23 = __byte_perm(line[2][w], line[3][w], 0x5140);
      const uint32_t high01 = __byte_perm(line[0][w], line[1][w], 0x7362);
      const uint32_t high23 = __byte_perm(line[2][w], line[3][w], 0x7362);
      out[4 * w] = __byte_perm(low01, low23, 0x5410);
      out[4 * w + 1] = __byte_perm(low01, low23, 0x7632);
      out[4 * w + 2] = __byte_perm(high01, high23, 0x5410);
      out[4 * w + 3] = __byte_perm(high01, high23, 0x7632);
    }
  } else if constexpr (sizeof(S) == 2) {
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      out[2 * w] = __byte_perm(line[0][w], line[1][w], 0x5410);
      out[2 * w + 1] = __byte_perm(line[0][w], line[1][w], 0x7632);
    }
  } else {
    std::memcpy(out, line[0], 16);
  }
}

// One tile of every operand.
template <class Op, class T, class In, class Out>
struct TileRun {
  using F = Functor<Op, T>;
  using Shape = TileShape<In>;
  using Word = typename Shape::Word;
  using Result = typename F::Result;
  static constexpr int N = F::kOperands, V = Shape::kWidth;
  template <size_t k>
  using Stored = typename F::template Input<In, k>;
  template <size_t k>
  using Arrivals = Arriving<Stored<k>, T, V>;

  const typename F::RowArguments& args;
  int rest0, rest1;  // elements of the tile that exist
  int64_t offsets[N] = {};
  Word* tiles[N];  // of the operands that have one

  __device__ __forceinline__ TileRun(const typename F::RowArguments& arguments, char* shared)
      : args(arguments) {
    const uint32_t row = args.row_divider.divide(blockIdx.x);
    const uint32_t slab = args.slab_divider.divide(row);
    const int64_t start0 =
        static_cast<int64_t>(blockIdx.x - row * args.row_divider.divisor) * Shape::kEdge0;
    const int64_t start1 =
        static_cast<int64_t>(row - slab * args.slab_divider.divisor) * Shape::kEdge1;
    rest0 = static_cast<int>(min(args.sizes[0] - start0, int64_t{Shape::kEdge0}));
    rest1 = static_cast<int>(min(args.sizes[1] - start1, int64_t{Shape::kEdge1}));
    add_offsets(args, 2, slab, offsets);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      offsets[i] += start0 * args.strides[i][0] + start1 * args.strides[i][1];
      tiles[i] = reinterpret_cast<Word*>(shared);
      if (across(i)) shared += tile_bytes(Shape::kSize);
    }
  }

  __device__ __forceinline__ bool across(int i) const {
    return args.operands[i].access == Access::shared;
  }
  // Where operand i's element at (i0, i1) of the tile is.
  __device__ __forceinline__ char* data(int i, int i0, int i1) const {
    return args.operands[i].data + offsets[i] + i0 * args.strides[i][0] + i1 * args.strides[i][1];
  }

  // Tiles that are whole vectors along both dims, all of which start at boundaries. Vectors beyond
  // an edge are loaded from the last place before it, so that no load waits for a branch; whole
  // tiles have none.

  template <bool whole>
  static __device__ __forceinline__ int before(int position, int last) {
    return whole ? position : min(position, last);
  }

  // The place of a thread's vector along dim 0 in a round.
  struct Place {
    int i0, i1;
    __device__ __forceinline__ explicit Place(int round) {
      const int index = static_cast<int>(threadIdx.x) + round * kBlockThreads;
      i1 = index / 8 % Shape::kEdge1;
      i0 = (index % 8 + index / (8 * Shape::kEdge1) * 8) * V;
    }
  };

  // KernelOperand i through shared memory. Its loads are all issued before the first is used.
  template <bool whole>
  __device__ __forceinline__ void bring_across(int i) const {
    constexpr int kRows = Shape::kEdge0 / Shape::kLines;
    uint32_t line[Shape::kReads][Shape::kLines][4];
    const auto column_of = [](int index) {
      return (index % Shape::kAcross + index / Shape::kAcross / kRows * Shape::kAcross) * V;
    };
    const auto row_of = [](int index) { return index / Shape::kAcross % kRows; };
#pragma unroll
    for (int round = 0; round < Shape::kReads; ++round) {
      const int index = static_cast<int>(threadIdx.x) + round * kBlockThreads;
      const int first = before<whole>(row_of(index) * Shape::kLines, rest0 - Shape::kLines);
      const int column = before<whole>(column_of(index), rest1 - V);
#pragma unroll
      for (int l = 0; l < Shape::kLines; ++l)
        load_aligned<16>(data(i, first + l, column), line[round][l]);
    }
#pragma unroll
    for (int round = 0; round < Shape::kReads; ++round) {
      const int index = static_cast<int>(threadIdx.x) + round * kBlockThreads;
      Word words[V];
      interleave<In>(line[round], words);
      Word* const to = tiles[i] + column_of(index) * Shape::kPitch + row_of(index);
#pragma unroll
      for (int j = 0; j < V; ++j) to[j * Shape::kPitch] = words[j];
    }
  }

  template <bool whole, size_t k>
  __device__ __forceinline__ void load(Arrivals<k> (&arriving)[Shape::kWrites]) const {
    if (across(k + 1)) return;
#pragma unroll
    for (int round = 0; round < Shape::kWrites; ++round) {
      const Place place(round);
      const char* const from =
          data(k + 1, before<whole>(place.i0, rest0 - V), before<whole>(place.i1, rest1 - 1));
      arriving[round].load(args.operands[k + 1], from, {0, V});
    }
  }
  template <size_t k>
  __device__ __forceinline__ void take(const Arrivals<k>& arriving, Place place,
                                       T (&group)[V]) const {
    if (!across(k + 1)) return arriving.finish(args.operands[k + 1], group);
    if constexpr (std::is_same_v<Stored<k>, In>) {
      Packed<In, V> packed;
      const Word* const from =
          tiles[k + 1] + place.i1 * Shape::kPitch + place.i0 / V * Shape::kWords;
#pragma unroll
      for (int w = 0; w < Shape::kWords; ++w) {
        const Word word = from[w];
        std::memcpy(packed.bytes() + w * sizeof(Word), &word, sizeof(Word));
      }
#pragma unroll
      for (int j = 0; j < V; ++j) group[j] = packed.template lane<T>(j);
    }
  }
  template <bool whole, size_t... I>
  __device__ __forceinline__ void vectors(std::index_sequence<I...>) const {
    std::tuple<Arrivals<I>[Shape::kWrites]...> arriving;
    (load<whole, I>(std::get<I>(arriving)), ...);
    ((across(I + 1) ? bring_across<whole>(I + 1) : void()), ...);
    __syncthreads();
#pragma unroll
    for (int round = 0; round < Shape::kWrites; ++round) {
      const Place place(round);
      T in[F::kInputs][V];
      (take<I>(std::get<I>(arriving)[round], place, in[I]), ...);
      Result out[V];
      F::template apply<V>(args.parameters, in, out);
      if (whole || (place.i0 < rest0 && place.i1 < rest1))
        store_group<Out>(data(0, place.i0, place.i1), {0, V}, out);
    }
  }

  // Other tiles, and operands of several types: by the element. Neighbouring threads have
  // neighbours along one dim, and each has elements a fixed step apart along the other, kAtOnce of
  // them on the way. Values of other types than In are in shared memory as T, in kernels where In
  // is T.

  static constexpr int kElements = Shape::kEdge0 * Shape::kEdge1;
  static constexpr int kAtOnce = std::min(16, kElements / kBlockThreads);
  static constexpr int kRounds = kElements / kBlockThreads / kAtOnce;

  // A thread's elements of a round, of a tile that is `edge` long along the near dim.
  template <int edge>
  struct Column {
    static constexpr int kStep = kBlockThreads / edge;
    int near, far, count;
    __device__ __forceinline__ Column(int round, int near_rest, int far_rest)
        : near(static_cast<int>(threadIdx.x) % edge),
          far(static_cast<int>(threadIdx.x) / edge + round * kAtOnce * kStep),
          count(near < near_rest ? (far_rest - far + kStep - 1) / kStep : 0) {}

    // Calls fn with whether all of kAtOnce exist, if any does.
    template <class Fn>
    __device__ __forceinline__ void with_whole(const Fn& fn) const {
      if (count >= kAtOnce) {
        fn(std::true_type{});
      } else if (count > 0) {
        fn(std::false_type{});
      }
    }
  };

  // Calls fn(j) for those of kAtOnce elements that exist.
  template <bool whole, class Fn>
  static __device__ __forceinline__ void for_each(int count, const Fn& fn) {
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) {
      if (whole || j < count) fn(j);
    }
  }
  // Elements stored as S, `step` bytes apart.
  template <bool whole, class S>
  static __device__ __forceinline__ void load_stored(const char* from, int64_t step, int count,
                                                     T (&values)[kAtOnce]) {
    using Bits = std::conditional_t<sizeof(S) == 1, uint8_t,
                                    std::conditional_t<sizeof(S) == 2, uint16_t, S>>;
    // In registers of their own, which do not wait for what is in them.
    std::conditional_t<sizeof(S) < 4, uint32_t, S> stored[kAtOnce];
    for_each<whole>(count,
                    [&](int j) { stored[j] = *reinterpret_cast<const Bits*>(from + j * step); });
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j)
      values[j] = convert_bytes<T, S>(reinterpret_cast<const char*>(&stored[j]));
  }
  template <bool whole, size_t k>
  __device__ __forceinline__ void load_column(const char* from, int64_t step, int count,
                                              T (&values)[kAtOnce]) const {
    if constexpr (mixes_types<T, In> && std::is_same_v<Stored<k>, In>) {
      with_type_of<tile_inputs<T>>(args.operands[k + 1].type, [&](auto stored) {
        load_stored<whole, decltype(stored)>(from, step, count, values);
      });
    } else {
      load_stored<whole, Stored<k>>(from, step, count, values);
    }
  }

  __device__ __forceinline__ In* shared_element(int i, int i0, int i1) const {
    constexpr int kRowBytes = Shape::kPitch * static_cast<int>(sizeof(Word));
    return reinterpret_cast<In*>(reinterpret_cast<char*>(tiles[i]) + i1 * kRowBytes +
                                 i0 * Shape::kSize);
  }
  template <size_t k>
  __device__ __forceinline__ void bring_each() const {
    constexpr int i = static_cast<int>(k) + 1;
    if (!across(i)) return;
#pragma unroll 1
    for (int round = 0; round < kRounds; ++round) {
      const Column<Shape::kEdge1> column(round, rest1, rest0);
      column.with_whole([&](auto whole) {
        T values[kAtOnce];
        load_column<whole, k>(data(i, column.far, column.near), column.kStep * args.strides[i][0],
                              column.count, values);
        // Not by memcpy: ptxas 13.0 stores the low byte of a half as the half's integer part.
        for_each<whole>(column.count, [&](int j) {
          *shared_element(i, column.far + j * column.kStep, column.near) = convert<In>(values[j]);
        });
      });
    }
  }
  template <bool whole, size_t k>
  __device__ __forceinline__ void take_each(const Column<Shape::kEdge0>& column,
                                            T (&values)[kAtOnce]) const {
    constexpr int i = static_cast<int>(k) + 1;
    const KernelOperand& operand = args.operands[i];
    if (across(i)) {
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j)
        values[j] = convert<T>(*shared_element(i, column.near, column.far + j * column.kStep));
    } else if (operand.access == Access::value) {
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j)
        values[j] = *reinterpret_cast<const T*>(operand.value.bytes);
    } else {
      load_column<whole, k>(data(i, column.near, column.far), column.kStep * args.strides[i][1],
                            column.count, values);
    }
  }
  template <size_t... I>
  __device__ __forceinline__ void each(std::index_sequence<I...>) const {
    (bring_each<I>(), ...);
    __syncthreads();
#pragma unroll 1
    for (int round = 0; round < kRounds; ++round) {
      const Column<Shape::kEdge0> column(round, rest0, rest1);
      column.with_whole([&](auto whole) {
        T in[F::kInputs][kAtOnce];
        (take_each<whole, I>(column, in[I]), ...);
        Result out[kAtOnce];
        F::template apply<kAtOnce>(args.parameters, in, out);
        char* const to = data(0, column.near, column.far);
        const int64_t step = column.kStep * args.strides[0][1];
        for_each<whole>(column.count, [&](int j) {
          *reinterpret_cast<Out*>(to + j * step) = convert<Out>(out[j]);
        });
      });
    }
  }
};

// `vectors`: operands have the stored types that the kernel is compiled for, and whole vectors of
// them start at boundaries.
template <class Op, class T, class In, class Out, bool vectors>
__global__ void __launch_bounds__(kBlockThreads, Functor<Op, T>::kTiledBlocks)
    tiled_kernel(const __grid_constant__ typename Functor<Op, T>::RowArguments args) {
  extern __shared__ __align__(16) char shared_bytes[];
  let_next_start();
  using Run = TileRun<Op, T, In, Out>;
  constexpr auto kInputs = std::make_index_sequence<Op::num_inputs>{};
  const Run run(args, shared_bytes);
  wait_for_earlier();
  if constexpr (!vectors) {
    run.each(kInputs);
  } else if (run.rest0 == Run::Shape::kEdge0 && run.rest1 == Run::Shape::kEdge1) {
    run.template vectors<true>(kInputs);
  } else {
    run.template vectors<false>(kInputs);
  }
}

}  // namespace iterlab::cuda
