// Where the columns of a block of the outer reductions are, and what becomes of their states.
#pragma once

#include "engine/cuda/collect_rows.cuh"

namespace iterlab::cuda {

// Folds room[r * columns + c], the states of so many rows, in halves into room[c]. All threads call
// it, after a barrier.
template <class R>
__device__ __forceinline__ void fold_rows(int rows, int columns, typename R::State* room) {
  while (rows > 1) {
    const int left = (rows + 1) / 2;
    for (int i = static_cast<int>(threadIdx.x); i < (rows - left) * columns; i += kBlockThreads)
      R::combine(room[i], room[i + left * columns]);
    __syncthreads();
    rows = left;
  }
}

// A column of a block of the outer kernel: whose output's, and in which chunk of its rows.
struct ColumnPlace {
  uint32_t outer, chunk;
  int64_t column;
  bool exists;

  // `unit`: of the outputs beside each other and their chunks.
  __device__ __forceinline__ ColumnPlace(const ReduceArguments& args, uint32_t unit, int64_t at) {
    outer = args.chunk_divider.divide(unit);
    chunk = unit - outer * args.chunk_divider.divisor;
    column = at;
    exists = outer * args.kept_size < args.outputs && column < args.kept_size;
  }
};

// The columns of a block: args.columns of each of its slots.
struct ColumnBlock {
  const ReduceArguments& args;
  int slots;
  uint32_t units, number;  // blocks of units before it, and along the fastest kept dim

  __device__ __forceinline__ ColumnBlock(const ReduceArguments& arguments, int of_block)
      : args(arguments), slots(of_block) {
    units = args.column_divider.divide(blockIdx.x);
    number = blockIdx.x - units * args.column_divider.divisor;
  }
  __device__ __forceinline__ ColumnPlace place(int slot, int column) const {
    return ColumnPlace(args, units * slots + slot,
                       static_cast<int64_t>(number) * args.columns + column);
  }
  // Of one of the columns of all slots.
  __device__ __forceinline__ int slot_of(int column) const {
    return slots == 1 ? 0 : row_of(column);
  }
  __device__ __forceinline__ ColumnPlace place(int column) const {
    const int slot = slot_of(column);
    return place(slot, column - slot * args.columns);
  }
  // Rows of args.columns before it.
  __device__ __forceinline__ int row_of(int column) const {
    return static_cast<int>(args.row_divider.divide(static_cast<uint32_t>(column)));
  }
};

// What the chunks of columns have collected, in room, becomes results. Note [Groups of chunks]
template <class R, class C, int kGroupBits>
__device__ __forceinline__ void finish_columns(const ReduceArguments& args,
                                               const ColumnBlock& columns, typename R::State* room,
                                               bool* is_last) {
  using State = typename R::State;
  const auto thread = static_cast<int>(threadIdx.x);
  const int slots = columns.slots, all = slots * args.columns;
  constexpr int kGroup = 1 << kGroupBits;
  const auto nodes = static_cast<int64_t>(chunk_nodes(args.chunks, kGroupBits));
  int64_t first_node = 0;  // of the level
  for (int count = args.chunks, level = 0; count > 1; level += kGroupBits) {
    const auto state_of = [&](const ColumnPlace& place, int node) {
      return reinterpret_cast<State*>(args.partials) +
             (place.outer * nodes + first_node + node) * args.kept_size + place.column;
    };
    for (int c = thread; c < all; c += kBlockThreads) {
      const ColumnPlace place = columns.place(c);
      if (place.exists && (level == 0 || is_last[columns.slot_of(c)]))
        *state_of(place, static_cast<int>(place.chunk >> level)) = room[c];
    }
    __syncthreads();
    bool any = false;
    if (thread < slots) {
      const ColumnPlace place = columns.place(thread, 0);
      const uint32_t group = place.chunk >> level >> kGroupBits;
      const int64_t node = place.outer * nodes + first_node + group;
      any = place.exists && (level == 0 || is_last[thread]) &&
            take_ticket(args.tickets + node * args.column_divider.divisor + columns.number,
                        min(count - group * kGroup, uint32_t{kGroup}));
      is_last[thread] = any;
    }
    if (!__syncthreads_or(any)) return;
    // Chunks go to lanes in turn.
    constexpr int kAtOnce = sizeof(State) <= 8 ? 4 : 2;
    for (int i = thread; i < args.chunk_lanes * all; i += kBlockThreads) {
      const int row = columns.row_of(i), lane = row >> exponent(slots), slot = row & (slots - 1);
      const ColumnPlace place = columns.place(slot, i - row * args.columns);
      State state;
      R::start(state);
      if (is_last[slot] && place.exists) {
        const int first = static_cast<int>(place.chunk >> level) & -kGroup;
        const int size = min(count - first, kGroup);
        const State* from = state_of(place, first + lane);
        const int64_t step = args.chunk_lanes * args.kept_size;
        for (int k = lane; k < size; k += kAtOnce * args.chunk_lanes) {
          State others[kAtOnce];
#pragma unroll
          for (int n = 0; n < kAtOnce; ++n) {
            if (k + n * args.chunk_lanes < size) others[n] = load_state<State>(from + n * step);
          }
#pragma unroll
          for (int n = 0; n < kAtOnce; ++n) {
            if (k + n * args.chunk_lanes < size) R::combine(state, others[n]);
          }
          from += kAtOnce * step;
        }
      }
      room[i] = state;
    }
    __syncthreads();
    fold_rows<R>(args.chunk_lanes, all, room);
    first_node += count;
    count = groups_of_chunks(count, kGroupBits);
  }
  for (int c = thread; c < all; c += kBlockThreads) {
    const ColumnPlace place = columns.place(c);
    if (!place.exists || (args.chunks > 1 && !is_last[columns.slot_of(c)])) continue;
    OutputPlace output;
    output.add(args, 1, place.outer);
    output.move(args.dims[0].kept, place.column);
    R::store(room[c], args, number_for<R, C>(args, args.input + output.input), output.results);
  }
}

}  // namespace iterlab::cuda
