// The reduction kernels, one template for each form.
#pragma once

#include "engine/cuda/collect.cuh"

namespace iterlab::cuda {

// Blocks that an SM shall hold. With 80 registers a thread, light formulas keep a third block's
// loads in flight while another's threads combine what they have; with the 16 bytes of a row that a
// thread of the outer kernel has, a fourth.
template <class R, class C>
inline constexpr int resident_short = sizeof(C) == 4 && sizeof(typename R::Lane_) <= 4 ? 3 : 2;
template <class R, class C>
inline constexpr int resident_inner = R::kPacked ? 3 : resident_short<R, C>;
template <class R, class C>
inline constexpr int resident_outer = sizeof(typename R::State) > 16 ? 2
                                      : R::kShifted || sizeof(C) > 4 ? 3
                                                                     : 4;

// inner: the fastest dim is reduced. `args.lanes` threads for an output, or a block for a chunk.
template <class Op, class Projection, class C, int V>
__global__ void __launch_bounds__(kBlockThreads, (resident_inner<Reducer<Op, Projection, C>, C>))
    reduce_inner_kernel(const __grid_constant__ ReduceArguments args) {
  using R = Reducer<Op, Projection, C>;
  using State = typename R::State;
  fetch_arguments<kHotArguments>(args);
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
  wait_for_earlier();
  State state =
      collect_groups<R, C, V>(args, args.input + place.input, exists ? begin : 0, end, lane);
  let_next_start();
  if (lanes < kBlockThreads) {
    fold_lanes<R>(state, lanes);
    if (exists && lane == 0)
      R::store(state, args, number_for<R, C>(args, args.input + place.input), place.results);
    return;
  }
  fold_block<R>(state);
  if (args.chunks > 1) {
    auto* const partials =
        reinterpret_cast<State*>(args.partials) + static_cast<int64_t>(output) * args.chunks;
    __shared__ bool last;
    if (threadIdx.x == 0) {
      partials[chunk] = state;
      last = take_ticket(args.tickets + output, static_cast<uint32_t>(args.chunks));
    }
    __syncthreads();
    if (!last) return;
    R::start(state);
    for (int c = static_cast<int>(threadIdx.x); c < args.chunks; c += kBlockThreads)
      R::combine(state, load_state<State>(partials + c));
    fold_block<R>(state);
  }
  if (threadIdx.x == 0)
    R::store(state, args, number_for<R, C>(args, args.input + place.input), place.results);
}

// Folds `count` states of each of a block's columns, of which load(l, c) is column c's l-th, into
// room[c]. As many threads as there are share a column; what they have meets in `room`. All threads
// call it.
template <class R, class Load>
__device__ __forceinline__ void fold_columns(int columns, int count, typename R::State* room,
                                             const Load& load) {
  constexpr int kAtOnce = sizeof(typename R::State) <= 8 ? 8 : 1;
  const auto thread = static_cast<int>(threadIdx.x);
  const int abreast = min(columns, kBlockThreads), sharers = kBlockThreads / abreast;
  const int part = thread / abreast;
  for (int c = thread % abreast; c < columns; c += kBlockThreads) {
    typename R::State state;
    R::start(state);
#pragma unroll kAtOnce
    for (int l = part; l < count; l += sharers) R::combine(state, load(l, c));
    if (sharers > 1) {  // then c is the thread's only column
      __syncthreads();
      room[part * columns + c] = state;
      __syncthreads();
      for (int p = 1; part == 0 && p < sharers; ++p) R::combine(state, room[p * columns + c]);
    }
    if (part == 0) room[c] = state;
  }
  __syncthreads();
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
  template <class State>
  __device__ __forceinline__ State* partial(const ReduceArguments& args, int64_t of_chunk) const {
    return reinterpret_cast<State*>(args.partials) +
           (static_cast<int64_t>(outer) * args.chunks + of_chunk) * args.kept_size + column;
  }
};

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
  if (to.type != to.result_type || args.dims[0].kept.results[0] != to.size ||
      !is_hot<hot_results<T>>(to.type))
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
// `args.lanes` rows of them share the rows of a chunk, and a block has several such slots. What the
// lanes have collected meets in shared memory, and from there on threads have whole columns.
template <class Op, class Projection, class C, int V>
__global__ void __launch_bounds__(kBlockThreads, (resident_outer<Reducer<Op, Projection, C>, C>))
    reduce_outer_kernel(const __grid_constant__ ReduceArguments args) {
  using R = Reducer<Op, Projection, C>;
  using State = typename R::State;
  __shared__ alignas(16) char shared[kBlockThreads * V * sizeof(State)];
  __shared__ bool last[kBlockThreads];
  auto* const room = reinterpret_cast<State*>(shared);
  fetch_arguments<kHotArguments>(args);
  const auto thread = static_cast<int>(threadIdx.x);
  const int wide = args.columns * V;  // columns of a slot
  const int slots = kBlockThreads / (args.columns * args.lanes), all = slots * wide;
  const uint32_t units = args.column_divider.divide(blockIdx.x);
  const uint32_t column_block = blockIdx.x - units * args.column_divider.divisor;
  const auto place_of = [&](int slot, int column) {
    return ColumnPlace(args, units * slots + slot,
                       static_cast<int64_t>(column_block) * wide + column);
  };
  bool stored;
  {
    const int lane = thread / args.columns % args.lanes;
    const int slot = thread / (args.columns * args.lanes);
    const int at = slot * wide + thread % args.columns * V;
    const ColumnPlace place = place_of(slot, at - slot * wide);
    // The last group of columns is moved back so that it is whole; its first ones are not kept.
    const int64_t start =
        args.kept_size >= V ? min(place.column, args.kept_size - V) : place.column;
    const int first = static_cast<int>(min(place.column - start, static_cast<int64_t>(V)));
    const int valid = args.kept_size >= V ? V : static_cast<int>(args.kept_size);
    OutputPlace output;
    if (place.exists) {
      output.add(args, 1, place.outer);
      output.move(args.dims[0].kept, start);
    }
    const int64_t begin = place.chunk * args.chunk;
    const int64_t end = place.exists ? min(args.reduced, begin + args.chunk) : begin;
    State states[V];
    wait_for_earlier();
    collect_rows<R, C, V>(args, args.input + output.input, begin, end, lane, valid, states);
    let_next_start();
    stored = !place.exists;
    if constexpr (!R::kPositions && Op::num_outputs == 1) {
      // Few rows: what a thread has is the whole of its columns.
      if (args.lanes == 1 && place.exists && first == 0 && valid == V) {
        double numbers[V];
        numbers_for<R, C, V>(args, args.input + output.input, valid, numbers);
        stored = store_together<R>(states, args, numbers, output.results[0]);
      }
    }
    State* const to = room + lane * all + at;
    if (first == 0) {
#pragma unroll
      for (int j = 0; j < V; ++j) to[j] = states[j];
    } else {
#pragma unroll
      for (int j = 0; j < V; ++j) {
        if (j >= first) to[j - first] = states[j];
      }
    }
  }
  if (__syncthreads_and(stored)) return;
  fold_columns<R>(all, args.lanes, room, [&](int lane, int c) { return room[lane * all + c]; });
  if (args.chunks > 1) {
    for (int c = thread; c < all; c += kBlockThreads) {
      const ColumnPlace place = place_of(c / wide, c % wide);
      if (place.exists) *place.partial<State>(args, place.chunk) = room[c];
    }
    __syncthreads();
    bool any = false;
    if (thread < slots) {
      const ColumnPlace place = place_of(thread, 0);
      any = place.exists &&
            take_ticket(args.tickets + place.outer * args.column_blocks + column_block,
                        static_cast<uint32_t>(args.chunks));
      last[thread] = any;
    }
    if (!__syncthreads_or(any)) return;
    fold_columns<R>(all, args.chunks, room, [&](int chunk, int c) {
      const ColumnPlace place = place_of(c / wide, c % wide);
      State state;
      R::start(state);
      if (last[c / wide] && place.exists)
        state = load_state<State>(place.partial<State>(args, chunk));
      return state;
    });
  }
  for (int c = thread; c < all; c += kBlockThreads) {
    const ColumnPlace place = place_of(c / wide, c % wide);
    if (!place.exists || (args.chunks > 1 && !last[c / wide])) continue;
    OutputPlace output;
    output.add(args, 1, place.outer);
    output.move(args.dims[0].kept, place.column);
    R::store(room[c], args, number_for<R, C>(args, args.input + output.input), output.results);
  }
}

// short: few elements for each output. The block brings a slab of them to shared memory, in vectors
// where they follow each other; then each thread has outputs of its own.
template <class Op, class Projection, class C, int V>
__global__ void __launch_bounds__(kBlockThreads, (resident_short<Reducer<Op, Projection, C>, C>))
    reduce_short_kernel(const __grid_constant__ ReduceArguments args) {
  using R = Reducer<Op, Projection, C>;
  extern __shared__ char shared_bytes[];
  C* const shared = reinterpret_cast<C*>(shared_bytes);
  fetch_arguments<kHotArguments>(args);
  const auto reduced = static_cast<int>(args.reduced);
  const uint32_t outer = args.column_divider.divide(blockIdx.x);
  const int64_t slab = blockIdx.x - outer * args.column_divider.divisor;
  const int64_t first = slab * args.columns;
  const auto outputs =
      static_cast<int>(min(static_cast<int64_t>(args.columns), args.kept_size - first));
  OutputPlace place;
  place.add(args, 1, outer);
  place.move(args.dims[0].kept, first);
  const char* const input = args.input + place.input;
  const int64_t pitch = args.dims[0].kept.stride, stride = args.dims[0].reduced.stride;
  const bool follow = stride == args.size && (outputs == 1 || pitch == reduced * stride);
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
  wait_for_earlier();
  int start = static_cast<int>(threadIdx.x) * V;
  if (!follow) {
    const auto bring = [&](const auto& load) {
#pragma unroll 4
      for (int element = static_cast<int>(threadIdx.x); element < elements;
           element += kBlockThreads) {
        const auto row = static_cast<int>(args.row_divider.divide(element));
        shared[padded(element)] = load(input + row * pitch + (element - row * reduced) * stride);
      }
    };
    const bool brought =
        args.whole_rows && with_stored_type<C>(args.type, [&](auto stored) {
          bring([](const char* data) { return load_as<C, decltype(stored)>(data); });
        });
    if (!brought) bring([&](const char* data) { return load_rounded<C>(args, data); });
    start = elements;
  } else if (args.whole_rows && is_aligned(input)) {
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
  let_next_start();
  for (int output = static_cast<int>(threadIdx.x); output < outputs; output += kBlockThreads) {
    typename R::Lane_ lane;
    R::start(lane);
    const double number = number_for<R, C>(args, input + output * pitch);
    for (int i = 0; i < reduced; ++i) {
      const double nth = R::kCounts ? 1.0 / (i + 1) : 0;
      R::add(lane, shared[padded(output * reduced + i)], static_cast<uint32_t>(i), nth, number);
    }
    int64_t offsets[kMaxResults];
    for (int i = 0; i < kMaxResults; ++i)
      offsets[i] = place.results[i] + output * args.dims[0].kept.results[i];
    R::store(R::state_of(lane, 0, reduced), args, number, offsets);
  }
}

}  // namespace iterlab::cuda
