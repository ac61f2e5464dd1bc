// The kernel of rows that vectors do not fit: short ones, and those with a step.
#pragma once

#include "engine/cuda/vectorized.cuh"

namespace iterlab::cuda {

// Note [Spans]
// A block takes elements that follow each other along loop dims 0 and 1 (or 0 alone). Where the
// rows of an operand lie close together, all that the block reads of it is within a span of memory
// not much larger. The block copies spans to shared memory, 16 bytes at a time and without waiting
// for each, and takes its elements from there, at any step. Read one at a time from global memory,
// every element would need an access of its own, with few of them on the way (65 of 66 elements of
// each row: 0.65 of the rate of a copy).

// Copies [from, from + bytes), at boundaries of 16 bytes, to shared memory. All threads call it.
// (Not unrolled: a block copies a few rounds of each operand, and took most of its instructions to
// prepare for sixteen.)
__device__ __forceinline__ void copy_span(char* to, const char* from, int bytes) {
  constexpr int kRound = kBlockThreads * 16;
  const int start = static_cast<int>(threadIdx.x) * 16;
  to += start;
  from += start;
#pragma unroll 1
  for (int rest = bytes - start; rest > 0; rest -= kRound, to += kRound, from += kRound) {
#if __CUDA_ARCH__ >= 800
    const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(to));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address), "l"(from));
#else
    *reinterpret_cast<uint4*>(to) = *reinterpret_cast<const uint4*>(from);
#endif
  }
}

__device__ __forceinline__ void wait_for_copies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_all;" ::: "memory");
#endif
  __syncthreads();
}

template <class Op, class T, class In, class Out, size_t... I>
__device__ __forceinline__ void run_spans(const typename Functor<Op, T>::RowArguments& args,
                                          char* shared, std::index_sequence<I...>) {
  using F = Functor<Op, T>;
  constexpr int N = F::kOperands;
  // Elements of a word of results, and words that a thread has in hand.
  constexpr int E = sizeof(Out) < 4 ? 4 / static_cast<int>(sizeof(Out)) : 1;
  constexpr int V = E == 4 ? kSpanWidth / 2 : kSpanWidth;
  const auto elements = static_cast<uint32_t>(args.units);
  const uint32_t outer = args.slab_divider.divide(blockIdx.x);
  const uint32_t first = (blockIdx.x - outer * args.slab_divider.divisor) * elements;
  const auto total = static_cast<uint32_t>(args.slab_numel);
  const uint32_t end = min(first + elements, total);
  const auto row_size = static_cast<uint32_t>(args.sizes[0]);
  const uint32_t first_row = args.row_divider.divide(first);
  const uint32_t last_row = args.row_divider.divide(end - 1);
  int64_t offsets[N] = {};
  add_offsets(args, args.inner_dims, outer, offsets);
  // Where, in shared memory, the element of first_row at column 0 would be.
  int starts[N];
  int32_t steps[N], pitches[N];
#pragma unroll
  for (int i = 0; i < N; ++i) {
    steps[i] = static_cast<int32_t>(args.strides[i][0]);
    pitches[i] = args.inner_dims > 1 ? static_cast<int32_t>(args.strides[i][1]) : 0;
  }
  int room = 0;
  wait_for_earlier();
#pragma unroll
  for (int i = 1; i < N; ++i) {
    const KernelOperand& operand = args.operands[i];
    starts[i] = 0;
    if (operand.access == Access::value) continue;
    const char* const row = operand.data + offsets[i] + int64_t{first_row} * pitches[i];
    const bool one_row = first_row == last_row;
    const int low = one_row ? static_cast<int>(first - first_row * row_size) * steps[i] : 0;
    const int column =
        one_row ? static_cast<int>(end - 1 - first_row * row_size) : static_cast<int>(row_size) - 1;
    const int high =
        static_cast<int>(last_row - first_row) * pitches[i] + column * steps[i] + operand.size;
    const int shift = static_cast<int>(reinterpret_cast<uintptr_t>(row + low) & 15);
    copy_span(shared + room, row + low - shift, high - low + shift);
    starts[i] = room + shift - low;
    room += args.rooms[i];
  }
  wait_for_copies();
  // From a row's end to the next one's start.
  int32_t wraps[N];
#pragma unroll
  for (int i = 0; i < N; ++i) {
    wraps[i] = args.inner_dims > 1 ? pitches[i] - static_cast<int32_t>(row_size) * steps[i] : 0;
  }
  char* const out = args.operands[0].data + offsets[0] + int64_t{first_row} * pitches[0];
  // Where results follow each other, the E of a thread are a word. Element 0 of all is at `origin`.
  char* const origin = out - int64_t{first_row} * row_size * static_cast<int>(sizeof(Out));
  const bool words = E > 1 && steps[0] == sizeof(Out) && wraps[0] == 0 &&
                     (reinterpret_cast<uintptr_t>(origin) & 3) == 0;
#pragma unroll 1
  for (uint32_t at = first + threadIdx.x * E; at < end; at += kBlockThreads * E * V) {
    T in[F::kInputs][V * E];
    char* to[V][E];
#pragma unroll
    for (int j = 0; j < V; ++j) {
      const uint32_t element = min(at + j * kBlockThreads * E, end - 1);
      const uint32_t row = args.row_divider.divide(element);
      uint32_t column = element - row * row_size;
      int from[N];
#pragma unroll
      for (int i = 1; i < N; ++i) {
        from[i] = starts[i] + static_cast<int>(row - first_row) * pitches[i] +
                  static_cast<int>(column) * steps[i];
      }
      char* result = out + int64_t{row - first_row} * pitches[0] + int64_t{column} * steps[0];
      const auto load = [&](auto k) -> T {
        constexpr int i = decltype(k)::value + 1;
        using S = typename F::template Input<In, decltype(k)::value>;
        if (args.operands[i].access == Access::value)
          return *reinterpret_cast<const T*>(args.operands[i].value.bytes);
        return load_as<T, S>(shared + from[i]);
      };
#pragma unroll
      for (int e = 0; e < E; ++e) {
        ((in[I][j * E + e] = load(std::integral_constant<int, static_cast<int>(I)>{})), ...);
        to[j][e] = result;
        // The last element again, where there are no more.
        if (e + 1 == E || element + e + 1 >= end) continue;
        const bool wraps_here = ++column == row_size;
        if (wraps_here) column = 0;
#pragma unroll
        for (int i = 1; i < N; ++i) from[i] += steps[i] + (wraps_here ? wraps[i] : 0);
        result += steps[0] + (wraps_here ? wraps[0] : 0);
      }
    }
    typename F::Result results[V * E];
    F::template apply<V * E>(args.parameters, in, results);
#pragma unroll
    for (int j = 0; j < V; ++j) {
      const uint32_t element = at + j * kBlockThreads * E;
      Out stored[E];
#pragma unroll
      for (int e = 0; e < E; ++e) stored[e] = convert<Out>(results[j * E + e]);
      if constexpr (E > 1) {
        if (words && element + E <= end) {
          store_aligned(to[j][0], stored);
          continue;
        }
      }
#pragma unroll
      for (int e = 0; e < E; ++e) {
        if (element + e < end) *reinterpret_cast<Out*>(to[j][e]) = stored[e];
      }
    }
  }
}

template <class Op, class T, class In, class Out>
__global__ void __launch_bounds__(kBlockThreads, Functor<Op, T>::kSpanBlocks)
    span_kernel(const __grid_constant__ typename Functor<Op, T>::RowArguments args) {
  extern __shared__ char shared_bytes[];
  let_next_start();
  run_spans<Op, T, In, Out>(args, shared_bytes, std::make_index_sequence<Op::num_inputs>{});
}

}  // namespace iterlab::cuda
