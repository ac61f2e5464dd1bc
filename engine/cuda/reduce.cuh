// The reduction kernels, one template for each form.
#pragma once

#include "engine/cuda/collect.cuh"

namespace iterlab::cuda {

// Blocks that an SM shall hold. With 80 registers a thread, light formulas keep a third block's
// loads in flight while another's threads combine what they have.
template <class R, class C>
inline constexpr int resident_outer = sizeof(C) == 4 && sizeof(typename R::Lane_) <= 4 ? 3 : 2;
template <class R, class C>
inline constexpr int resident_inner = R::kPacked ? 3 : resident_outer<R, C>;

// inner: the fastest dim is reduced. `args.lanes` threads for an output, or a block for a chunk.
template <class Op, class Projection, class C, int V>
__global__ void __launch_bounds__(kBlockThreads, (resident_inner<Reducer<Op, Projection, C>, C>))
    reduce_inner_kernel(const __grid_constant__ ReduceArguments args) {
  using R = Reducer<Op, Projection, C>;
  using State = typename R::State;
  const int lanes = args.lanes, lane = static_cast<int>(threadIdx.x) % lanes;
  uint32_t output = blockIdx.x, chunk = 0;
  if (args.chunks > 1) {
    output = args.chunk_divider.divide(blockIdx.x);
    chunk = blockIdx.x - output * args.chunk_divider.divisor;
  } else if (lanes < kBlockThreads) {
    output = blockIdx.x * (blockDim.x / lanes) + threadIdx.x / lanes;
  }
  const bool exists = output < args.outputs;
  OutputPlace place;
  if (exists) place.add(args, 0, output);
  const int64_t begin = chunk * args.chunk;
  const int64_t end = exists ? min(args.groups, begin + args.chunk) : 0;
  State state =
      collect_groups<R, C, V>(args, args.input + place.input, exists ? begin : 0, end, lane);
  if (lanes < kBlockThreads) {
    fold_lanes<R>(state, lanes);
    if (exists && lane == 0)
      R::store(state, args, number_for<R, C>(args, args.input + place.input), place.results);
    return;
  }
  fold_block<R>(state);
  if (args.chunks > 1) {
    auto* const partials = args.partials + static_cast<int64_t>(output) * args.chunks *
                                               static_cast<int64_t>(sizeof(State));
    __shared__ bool last;
    if (threadIdx.x == 0) {
      reinterpret_cast<State*>(partials)[chunk] = state;
      last = take_ticket(args.tickets + output, static_cast<uint32_t>(args.chunks));
    }
    __syncthreads();
    if (!last) return;
    R::start(state);
    for (int c = static_cast<int>(threadIdx.x); c < args.chunks; c += kBlockThreads)
      R::combine(state, load_state<State>(partials + c * static_cast<int64_t>(sizeof(State))));
    fold_block<R>(state);
  }
  if (threadIdx.x == 0)
    R::store(state, args, number_for<R, C>(args, args.input + place.input), place.results);
}

// Folds the states of V columns over the lanes of a slot, through shared memory. All threads call
// it; the result is with lane 0.
template <class R, int V>
__device__ __forceinline__ void fold_columns(typename R::State (&states)[V], int columns, int lanes,
                                             int lane, char* shared) {
  using State = typename R::State;
  auto* const room = reinterpret_cast<State*>(shared);
  const int slot = static_cast<int>(threadIdx.x) / (columns * lanes);
  const int column = static_cast<int>(threadIdx.x) % columns;
  for (int half = lanes / 2; half > 0; half /= 2) {
    const int at = (slot * half + lane % half) * columns + column;
    if (lane >= half && lane < 2 * half) {
#pragma unroll
      for (int j = 0; j < V; ++j) room[j * (kBlockThreads / 2) + at] = states[j];
    }
    __syncthreads();
    if (lane < half) {
#pragma unroll
      for (int j = 0; j < V; ++j) R::combine(states[j], room[j * (kBlockThreads / 2) + at]);
    }
    __syncthreads();
  }
}

// What results are usually stored as.
template <class T>
inline constexpr TypeMask hot_results = hot_outputs<T>;
template <>
inline constexpr TypeMask hot_results<double> = types<double, float>;

// The results of V outputs that follow each other in memory, in vectors; false where they do not.
template <class R, int V>
__device__ __forceinline__ bool store_together(const typename R::State (&states)[V],
                                               const ReduceArguments& args,
                                               const double (&numbers)[V], int64_t offset) {
  using T = typename R::Result;
  const ReduceResult& to = args.results[0];
  if (to.type != to.result_type || to.strides[0] != to.size || !is_hot<hot_results<T>>(to.type))
    return false;
  T results[V];
#pragma unroll
  for (int j = 0; j < V; ++j) {
    Lane<T> one[1];
    R::project(states[j], args, numbers[j], one);
    results[j] = one[0].value;
  }
  return store_hot<hot_results<T>>(to.data + offset, to.type, results);
}

// outer: the fastest dim is kept. A thread has V columns, `args.columns` threads are side by side,
// `args.lanes` rows of them share the rows of a chunk, and a block has several such slots.
template <class Op, class Projection, class C, int V>
__global__ void __launch_bounds__(kBlockThreads, (resident_outer<Reducer<Op, Projection, C>, C>))
    reduce_outer_kernel(const __grid_constant__ ReduceArguments args) {
  using R = Reducer<Op, Projection, C>;
  using State = typename R::State;
  __shared__ alignas(16) char room[kBlockThreads / 2 * V * sizeof(State)];
  __shared__ bool last[kBlockThreads];
  const int columns = args.columns, lanes = args.lanes;
  const auto thread = static_cast<int>(threadIdx.x);
  const int lane = thread / columns % lanes, slot = thread / (columns * lanes);
  const int slots = kBlockThreads / (columns * lanes);
  const uint32_t units = args.column_divider.divide(blockIdx.x);
  const uint32_t column_block = blockIdx.x - units * args.column_divider.divisor;
  const uint32_t unit = units * slots + slot;
  const uint32_t outer = args.chunk_divider.divide(unit);
  const uint32_t chunk = unit - outer * args.chunk_divider.divisor;
  // The last group of columns is moved back so that it is whole; its first ones are not stored.
  const int64_t column = (static_cast<int64_t>(column_block) * columns + thread % columns) * V;
  const int64_t start = args.kept_size >= V ? min(column, args.kept_size - V) : column;
  const bool exists = outer * args.kept_size < args.outputs && column < args.kept_size;
  const int valid = args.kept_size >= V ? V : static_cast<int>(args.kept_size);
  OutputPlace place;
  if (exists) {
    place.add(args, 1, outer);
    place.move(args, start);
  }
  const int64_t begin = chunk * args.chunk;
  State states[V];
  collect_rows<R, C, V>(args, args.input + place.input, begin,
                        exists ? min(args.reduced, begin + args.chunk) : begin, lane, valid,
                        states);
  fold_columns<R, V>(states, columns, lanes, lane, room);
  const int first = static_cast<int>(column - start);
  if (args.chunks > 1) {
    const auto state_bytes = static_cast<int64_t>(sizeof(State));
    const int64_t chunk_bytes = args.kept_size * state_bytes;
    char* const partials = args.partials + outer * args.chunks * chunk_bytes + start * state_bytes;
    if (exists && lane == 0) {
#pragma unroll
      for (int j = 0; j < V; ++j) {
        if (j >= first && j < valid)
          *reinterpret_cast<State*>(partials + chunk * chunk_bytes + j * state_bytes) = states[j];
      }
      __threadfence();
    }
    __syncthreads();
    const bool speaks = lane == 0 && thread % columns == 0;
    if (speaks) {
      last[slot] = exists && take_ticket(args.tickets + outer * args.column_blocks + column_block,
                                         static_cast<uint32_t>(args.chunks));
    }
    if (!__syncthreads_or(speaks && last[slot])) return;
    const bool mine = last[slot] && exists;
#pragma unroll
    for (int j = 0; j < V; ++j) R::start(states[j]);
    for (int c = mine ? lane : args.chunks; c < args.chunks; c += lanes) {
#pragma unroll
      for (int j = 0; j < V; ++j) {
        if (j < valid)
          R::combine(states[j], load_state<State>(partials + c * chunk_bytes + j * state_bytes));
      }
    }
    fold_columns<R, V>(states, columns, lanes, lane, room);
    if (!mine) return;
  }
  if (!exists || lane != 0) return;
  double numbers[V];
  numbers_for<R, C, V>(args, args.input + place.input, valid, numbers);
  if constexpr (!R::kPositions && Op::num_outputs == 1) {
    if (first == 0 && valid == V && store_together<R>(states, args, numbers, place.results[0]))
      return;
  }
#pragma unroll
  for (int j = 0; j < V; ++j) {
    if (j >= first && j < valid) {
      int64_t offsets[kMaxResults];
      for (int i = 0; i < kMaxResults; ++i)
        offsets[i] = place.results[i] + j * args.results[i].strides[0];
      R::store(states[j], args, numbers[j], offsets);
    }
  }
}

// short: few elements for each output, one after the other in memory. The block brings a slab of
// them to shared memory in vectors; then each thread has outputs of its own.
template <class Op, class Projection, class C, int V>
__global__ void __launch_bounds__(kBlockThreads, (resident_outer<Reducer<Op, Projection, C>, C>))
    reduce_short_kernel(const __grid_constant__ ReduceArguments args) {
  using R = Reducer<Op, Projection, C>;
  extern __shared__ char shared_bytes[];
  C* const shared = reinterpret_cast<C*>(shared_bytes);
  const auto reduced = static_cast<int>(args.reduced);
  const uint32_t outer = args.column_divider.divide(blockIdx.x);
  const int64_t slab = blockIdx.x - outer * args.column_divider.divisor;
  const int64_t first = slab * args.columns;
  const auto outputs =
      static_cast<int>(min(static_cast<int64_t>(args.columns), args.kept_size - first));
  OutputPlace place;
  place.add(args, 1, outer);
  place.move(args, first);
  const char* const input = args.input + place.input;
  const int elements = outputs * reduced;
  const int padding = args.padding;
  const auto padded = [&](int element) {
    return padding < 0 ? element : element + (element >> padding);
  };
  const auto place_group = [&](const C(&values)[V], int start, int count) {
#pragma unroll
    for (int j = 0; j < V; ++j) {
      if (j < count) shared[padded(start + j)] = values[j];
    }
  };
  constexpr int kStep = kBlockThreads * V;
  int start = static_cast<int>(threadIdx.x) * V;
  if (args.whole_rows && is_aligned(input)) {
    with_stored_type<C>(args.type, [&](auto stored) {
      using S = decltype(stored);
      constexpr int U = groups_in_flight(V * sizeof(S));
      for (; start + V <= elements; start += U * kStep) {
        WholeGroup<S, V> incoming[U];
#pragma unroll
        for (int u = 0; u < U; ++u) {
          if (start + u * kStep + V > elements) break;
          incoming[u].load(input + static_cast<int64_t>(start + u * kStep) * sizeof(S));
        }
#pragma unroll
        for (int u = 0; u < U; ++u) {
          if (start + u * kStep + V > elements) break;
          C values[V];
          incoming[u].convert_to(values);
          place_group(values, start + u * kStep, V);
        }
      }
      // Back to the first group that was not whole.
      while (start - kStep + V > elements) start -= kStep;
    });
  }
  for (; start < elements; start += kStep) {
    const int count = min(V, elements - start);
    C values[V];
    load_any<C, V>(args, input + static_cast<int64_t>(start) * args.size, args.size, 0, count,
                   values);
    place_group(values, start, count);
  }
  __syncthreads();
  for (int output = static_cast<int>(threadIdx.x); output < outputs; output += kBlockThreads) {
    typename R::Lane_ lane;
    R::start(lane);
    const double number = number_for<R, C>(args, input + output * args.kept_strides[0]);
    for (int i = 0; i < reduced; ++i) {
      const double nth = R::kCounts ? 1.0 / (i + 1) : 0;
      R::add(lane, shared[padded(output * reduced + i)], static_cast<uint32_t>(i), nth, number);
    }
    int64_t offsets[kMaxResults];
    for (int i = 0; i < kMaxResults; ++i)
      offsets[i] = place.results[i] + output * args.results[i].strides[0];
    R::store(R::state_of(lane, 0, reduced), args, number, offsets);
  }
}

}  // namespace iterlab::cuda
