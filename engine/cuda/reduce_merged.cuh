// The kernel of columns so few that rows are merged.
#pragma once

#include "engine/cuda/reduce.cuh"

namespace iterlab::cuda {

// What counts its elements, or knows their places, has states that differ from row to row.
template <class R>
inline constexpr bool merges_rows = !R::kCounts && !R::kPositions;

// Note [Merged rows]
// A thread has V columns of a chunk's merged rows, read at boundaries (Note [Windows]).
template <class Op, class Projection, class C, int V>
__global__ void __launch_bounds__(kBlockThreads, (resident_outer<Reducer<Op, Projection, C>, C>))
    reduce_merged_kernel(const __grid_constant__ ReduceArguments args) {
  using R = Reducer<Op, Projection, C>;
  using State = typename R::State;
  __shared__ alignas(16) char shared[kBlockThreads * V * sizeof(State)];
  __shared__ bool is_last;
  auto* const room = reinterpret_cast<State*>(shared);
  fetch_arguments<kHotArguments>(args);
  const auto thread = static_cast<int>(threadIdx.x), columns = args.columns,
             width = columns * args.merged;
  const uint32_t outer = args.chunk_divider.divide(blockIdx.x);
  const uint32_t chunk = blockIdx.x - outer * args.chunk_divider.divisor;
  OutputPlace place;
  place.add(args, 1, outer);
  const char* const input = args.input + place.input;
  const auto number_of = [&](int column) {
    return number_for<R, C>(args, input + column * args.size);
  };
  const int64_t begin = chunk * args.chunk;
  const auto rows = static_cast<int>(min(args.groups - begin, args.chunk));
  const int64_t pitch = int64_t{width} * args.size;
  const int access = min(16, V * args.size);
  const int start =
      thread * V -
      (static_cast<int>(reinterpret_cast<uintptr_t>(input)) & (access - 1)) / args.size;
  const int from = max(start, 0), to = min(start + V, width);
  wait_for_earlier();
  if (from < to) {
    typename R::Lane_ sums[V];
    double numbers[V];
#pragma unroll
    for (int j = 0; j < V; ++j) {
      R::start(sums[j]);
      const int at = min(max(start + j, 0), width - 1);
      const auto row = static_cast<int>(args.row_divider.divide(static_cast<uint32_t>(at)));
      numbers[j] = number_of(at - row * columns);
    }
    const char* next = input + begin * pitch + start * args.size;
    with_stored_type<C>(args.type, [&](auto stored) {
      using S = decltype(stored);
      if constexpr (V == outer_width(sizeof(S))) {
        using Incoming = WholeGroup<S, V>;
        constexpr int U = sizeof(typename R::Lane_) > 8 ? 4 : groups_in_flight(sizeof(Incoming));
        const auto load = [&](Incoming(&incoming)[U], int count) {
#pragma unroll
          for (int u = 0; u < U; ++u) {
            if (u < count) incoming[u].load(next + u * pitch);
          }
          next += U * pitch;
        };
        const auto add = [&](const Incoming(&incoming)[U], int count) {
#pragma unroll
          for (int u = 0; u < U; ++u) {
            if (u >= count) break;
            C values[V];
            incoming[u].convert_to(values);
#pragma unroll
            for (int j = 0; j < V; ++j) R::add(sums[j], values[j], 0, 0, numbers[j]);
          }
        };
        in_batches<Incoming, U>(rows, load, add);
      }
    });
    // Rows that are left over are the beginning of one more.
    const int left = static_cast<int>(args.reduced - args.groups * args.merged) * columns;
    const bool has_left = begin + rows == args.groups;
#pragma unroll
    for (int j = 0; j < V; ++j) {
      const int column = start + j;
      if (column < from || column >= to) continue;
      if (has_left && column < left) {
        const char* const data = input + args.groups * pitch + column * args.size;
        R::add(sums[j], load_rounded<C>(args, data), 0, 0, numbers[j]);
      }
      room[column] = R::state_of(sums[j], 0, 0);
    }
  }
  let_next_start();
  __syncthreads();
  fold_rows<R>(args.merged, columns, room);
  finish_columns<R, C, kMergedGroupBits>(args, ColumnBlock(args, 1), room, &is_last);
}

}  // namespace iterlab::cuda
