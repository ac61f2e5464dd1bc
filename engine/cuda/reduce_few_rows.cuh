// The kernel of few rows of many columns.
#pragma once

#include "engine/cuda/reduce.cuh"

namespace iterlab::cuda {

// few rows: a thread has all elements of its columns, two groups of V. It spends little before its
// first load, where the outer kernel finds its place among lanes, slots and chunks.
template <class R, class C, int V>
struct FewRows {
  template <class Incoming>
  static __device__ __forceinline__ void run(const ReduceArguments& args) {
    constexpr int kGroups = kGroupsOfFewRows, U = 4;  // rows on the way
    const auto rows = static_cast<int>(args.reduced);
    const int64_t stride = args.dims[0].reduced.stride;
    OutputPlace places[kGroups];
    const char* next[kGroups];
    bool exists[kGroups];
    typename R::Lane_ sums[kGroups][V];
    double numbers[kGroups][V];
#pragma unroll
    for (int g = 0; g < kGroups; ++g) {
      const uint32_t index = (blockIdx.x * kGroups + g) * kBlockThreads + threadIdx.x;
      exists[g] = index < args.groups;
      const auto group = min(index, static_cast<uint32_t>(args.groups - 1));
      const uint32_t row = args.row_divider.divide(group);
      const auto column = static_cast<int64_t>(group - row * args.row_divider.divisor) * V;
      places[g].add(args, 1, row);
      // The last group of a row is moved back so that it is whole.
      places[g].move(args.dims[0].kept, min(column, args.kept_size - V));
      next[g] = args.input + places[g].input;
      numbers_for<R, C, V>(args, next[g], 0, V, numbers[g]);
#pragma unroll
      for (int j = 0; j < V; ++j) R::start(sums[g][j]);
    }
#pragma unroll 1
    for (int row = 0; row < rows; row += U) {
      Incoming incoming[kGroups][U];
#pragma unroll
      for (int u = 0; u < U; ++u) {
        if (row + u >= rows) break;
#pragma unroll
        for (int g = 0; g < kGroups; ++g) incoming[g][u].load(next[g] + u * stride);
      }
#pragma unroll
      for (int u = 0; u < U; ++u) {
        if (row + u >= rows) break;
        const double nth = R::kCounts ? 1.0 / (row + u + 1) : 0;
#pragma unroll
        for (int g = 0; g < kGroups; ++g) {
          C values[V];
          incoming[g][u].convert_to(values);
#pragma unroll
          for (int j = 0; j < V; ++j)
            R::add(sums[g][j], values[j], static_cast<uint32_t>(row + u), nth, numbers[g][j]);
        }
      }
#pragma unroll
      for (int g = 0; g < kGroups; ++g) next[g] += U * stride;
    }
#pragma unroll
    for (int g = 0; g < kGroups; ++g) {
      if (exists[g]) store(args, sums[g], numbers[g], rows, places[g].results);
    }
  }

 private:
  static __device__ __forceinline__ void store(const ReduceArguments& args,
                                               const typename R::Lane_ (&sums)[V],
                                               const double (&numbers)[V], int rows,
                                               const int64_t (&results)[kMaxResults]) {
    typename R::State states[V];
#pragma unroll
    for (int j = 0; j < V; ++j) states[j] = R::state_of(sums[j], 0, rows);
    if constexpr (!R::kPositions && R::kOutputs == 1) {
      if (store_together<R>(states, args, numbers, results[0])) return;
    }
#pragma unroll
    for (int j = 0; j < V; ++j) {
      int64_t offsets[kMaxResults];
      for (int i = 0; i < kMaxResults; ++i)
        offsets[i] = results[i] + j * args.dims[0].kept.results[i];
      R::store(states[j], args, numbers[j], offsets);
    }
  }
};

template <class Op, class Projection, class C, int V>
__global__ void __launch_bounds__(kBlockThreads, (resident_outer<Reducer<Op, Projection, C>, C>))
    reduce_few_rows_kernel(const __grid_constant__ ReduceArguments args) {
  using Rows = FewRows<Reducer<Op, Projection, C>, C, V>;
  fetch_arguments<kHotArguments>(args);
  let_next_start();
  wait_for_earlier();
  with_stored_type<C>(args.type, [&](auto stored) {
    using S = decltype(stored);
    if constexpr (V == outer_width(sizeof(S))) {
      if (args.whole_rows) {
        Rows::template run<WholeGroup<S, V>>(args);
      } else {
        Rows::template run<LooseGroup<S, V>>(args);
      }
    }
  });
}

}  // namespace iterlab::cuda
