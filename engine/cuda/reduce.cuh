// The reduction kernels, one template for each form.
#pragma once

#include "engine/cuda/reducer.cuh"

namespace iterlab::cuda {

// What elements of compute type C usually come as. Note [Hot storage types]
template <class C>
inline constexpr TypeMask hot_elements = types<C>;
template <>
inline constexpr TypeMask hot_elements<float> = types<float, Half, BFloat16>;

// Adds up offsets of `index` along some dims.
template <int K>
__device__ __forceinline__ void add_dims(const LoopDims& dims, int from, uint32_t index,
                                         const int64_t* const (&strides)[K],
                                         int64_t (&offsets)[K]) {
#pragma unroll 1
  for (int d = from; d < dims.ndim; ++d) {
    const uint32_t next = dims.dividers[d].divide(index);
    const uint32_t position = index - next * dims.dividers[d].divisor;
    index = next;
#pragma unroll
    for (int k = 0; k < K; ++k) offsets[k] += static_cast<int64_t>(position) * strides[k][d];
  }
}

// Where an output's elements begin, and where its results go.
struct OutputPlace {
  int64_t input = 0;
  int64_t results[kMaxResults] = {};

  // Dims [from, ndim) of the kept ones.
  __device__ __forceinline__ void add(const ReduceArguments& args, int from, uint32_t index) {
    int64_t offsets[1 + kMaxResults] = {};
    add_dims(args.kept, from, index,
             {args.kept_strides, args.results[0].strides, args.results[1].strides}, offsets);
    input += offsets[0];
    for (int i = 0; i < kMaxResults; ++i) results[i] += offsets[1 + i];
  }
  // `position` along the first kept dim.
  __device__ __forceinline__ void move(const ReduceArguments& args, int64_t position) {
    if (args.kept.ndim == 0) return;
    input += position * args.kept_strides[0];
    for (int i = 0; i < kMaxResults; ++i) results[i] += position * args.results[i].strides[0];
  }
};

template <class C>
__device__ __noinline__ C round_through(C x, int type) {
  alignas(16) char rounded[16];
  store_element<C>(rounded, type, x);
  return load_element<C>(rounded, type);
}

// Calls fn(S{}) with the stored type of the elements, if it is one of the usual; false if not.
template <class C, class Fn>
__device__ __forceinline__ bool with_stored_type(int type, const Fn& fn) {
  switch (type) {
#define ITERLAB_CASE(S, name, text)                    \
  case type_index(DType::name):                        \
    if constexpr ((hot_elements<C> & types<S>) != 0) { \
      fn(S{});                                         \
      return true;                                     \
    }                                                  \
    break;
    ITERLAB_FORALL_STORAGE_TYPES(ITERLAB_CASE)
#undef ITERLAB_CASE
  }
  return false;
}

// V elements stored as S, at a boundary of their accesses.
template <class S, int V>
struct WholeGroup {
  static constexpr int kBytes = V * static_cast<int>(sizeof(S)), kStep = access_bytes(kBytes);
  uint32_t word[kBytes / 4];

  __device__ __forceinline__ void load(const char* data) {
#pragma unroll
    for (int i = 0; i < kBytes; i += kStep) load_aligned<kStep>(data + i, word + i / 4);
  }
  template <class C>
  __device__ __forceinline__ void convert_to(C (&group)[V]) const {
#pragma unroll
    for (int j = 0; j < V; ++j)
      group[j] = convert_bytes<C, S>(reinterpret_cast<const char*>(word) + j * sizeof(S));
  }
};

// Groups of so many bytes that a thread loads before it uses the first: 128 bytes, so that 512
// threads of an SM have 64 KiB in flight.
constexpr int groups_in_flight(size_t bytes) { return bytes >= 32 ? 4 : 8; }

// Whether groups that start at `data`, and every `stride` bytes from there, can be taken by
// WholeGroup.
__device__ __forceinline__ bool is_aligned(const char* data) {
  return (reinterpret_cast<uintptr_t>(data) & 15) == 0;
}

// Any other group: V elements from `data`, `stride` apart, of which [first, last) exist.
template <class C, int V>
__device__ __forceinline__ void load_any(const ReduceArguments& args, const char* data,
                                         int64_t stride, int first, int last, C (&group)[V]) {
  constexpr TypeMask kHot = hot_elements<C>;
  if (first == 0 && last == V && stride == args.size && args.element_type < 0 &&
      is_hot<kHot>(args.type) && fills_words(V, args.size)) {
    RawGroup<kHot, V> raw;
    load_raw<kHot, V>(data, args.size, raw);
    return convert_raw<kHot, C, V>(raw, args.type, group);
  }
  const Group<C, V> each = load_each<C, V>(data, stride, args.type, first, last);
#pragma unroll
  for (int j = 0; j < V; ++j) {
    group[j] = each.lane[j];
    if (args.element_type >= 0) group[j] = round_through(group[j], args.element_type);
  }
}

// What one thread collects of one output: V lanes, or, where counts matter, one state that groups
// join as collections of their own (Chan's formula needs the counts, and groups at the ends of rows
// are short).
template <class R, class C, int V>
struct Collector {
  typename R::Lane_ lanes[V];
  typename R::State total;

  __device__ __forceinline__ Collector() {
    R::start(total);
    if constexpr (!R::kCounts) {
#pragma unroll
      for (int j = 0; j < V; ++j) R::start(lanes[j]);
    }
  }
  __device__ __forceinline__ void add(const C (&group)[V], int first, int last, uint32_t at,
                                      double number) {
    if constexpr (R::kCounts) {
      typename R::Lane_ lane;
      R::start(lane);
#pragma unroll
      for (int j = 0; j < V; ++j) {
        if (first == 0 && j < last) R::add(lane, group[j], at + j, 1.0 / (j + 1), number);
        if (first != 0 && j >= first) R::add(lane, group[j], at + j, 1.0 / (j - first + 1), number);
      }
      R::combine(total, R::state_of(lane, 0, last - first));
    } else if (first == 0 && last == V) {
#pragma unroll
      for (int j = 0; j < V; ++j) R::add(lanes[j], group[j], at + j, 0, number);
    } else {
#pragma unroll
      for (int j = 0; j < V; ++j) {
        if (j >= first && j < last) R::add(lanes[j], group[j], at + j, 0, number);
      }
    }
  }
  __device__ __forceinline__ typename R::State finish(int64_t base) {
    if constexpr (!R::kCounts) {
      typename R::State states[V];
#pragma unroll
      for (int j = 0; j < V; ++j) states[j] = R::state_of(lanes[j], base, 0);
#pragma unroll
      for (int half = V / 2; half > 0; half /= 2) {
#pragma unroll
        for (int j = 0; j < half; ++j) R::combine(states[j], states[j + half]);
      }
      total = states[0];
    }
    return total;
  }
};

// The groups [begin + lane, end) of one output, `args.lanes` apart.
template <class R, class C, int V>
__device__ __forceinline__ typename R::State collect_groups(const ReduceArguments& args,
                                                            const char* input, int64_t begin,
                                                            int64_t end, int lane) {
  const int64_t n = args.reduced_size, stride = args.reduced_strides[0];
  const auto lanes = static_cast<int64_t>(args.lanes);
  const bool one_row = args.inside.ndim <= 1;
  const auto row_of = [&](int64_t group) -> int64_t {
    return one_row ? 0 : args.row_divider.divide(static_cast<uint32_t>(group));
  };
  const auto column_of = [&](int64_t group, int64_t row) {
    return (group - row * args.row_divider.divisor) * V;
  };
  const auto row_data = [&](int64_t row) {
    int64_t offset[1] = {0};
    add_dims(args.inside, 1, static_cast<uint32_t>(row), {args.reduced_strides}, offset);
    return input + offset[0];
  };
  const int64_t first_row = row_of(begin);
  const int64_t base = first_row * n + column_of(begin, first_row);  // element number of the chunk
  Collector<R, C, V> collector;
  int64_t group = begin + lane;
  // Whole groups at boundaries. A short one at the end of the only row is left over.
  if (args.whole_rows && is_aligned(input)) {
    const int64_t whole = n % V == 0 ? end : min(end, args.groups - 1);
    with_stored_type<C>(args.type, [&](auto stored) {
      using S = decltype(stored);
      constexpr int U = groups_in_flight(V * sizeof(S));
      const auto load = [&](WholeGroup<S, V>& incoming, int64_t g) {
        const int64_t row = row_of(g), column = column_of(g, row);
        incoming.load(row_data(row) + column * static_cast<int64_t>(sizeof(S)));
        return static_cast<uint32_t>(row * n + column - base);
      };
      const auto add = [&](const WholeGroup<S, V>& incoming, uint32_t at) {
        C values[V];
        incoming.convert_to(values);
        collector.add(values, 0, V, at, args.number);
      };
      for (; group + (U - 1) * lanes < whole; group += U * lanes) {
        WholeGroup<S, V> incoming[U];
        uint32_t at[U];
#pragma unroll
        for (int u = 0; u < U; ++u) at[u] = load(incoming[u], group + u * lanes);
#pragma unroll
        for (int u = 0; u < U; ++u) add(incoming[u], at[u]);
      }
#pragma unroll 1
      for (; group < whole; group += lanes) {
        WholeGroup<S, V> incoming;
        const uint32_t at = load(incoming, group);
        add(incoming, at);
      }
    });
  }
  for (; group < end; group += lanes) {
    const int64_t row = row_of(group), column = column_of(group, row);
    // The last group of a row is moved back so that it is whole: what it has in common with the one
    // before does not count.
    const bool moves = stride == args.size && n >= V && column + V > n;
    const int64_t start = moves ? n - V : column;
    const int last = start + V <= n ? V : static_cast<int>(n - start);
    C values[V];
    load_any<C, V>(args, row_data(row) + start * stride, stride, 0, last, values);
    collector.add(values, static_cast<int>(column - start), last,
                  static_cast<uint32_t>(row * n + start - base), args.number);
  }
  return collector.finish(base);
}

// Blocks that an SM shall hold. With 80 registers a thread, light formulas keep a third block's
// loads in flight while another's threads combine what they have.
template <class R, class C>
inline constexpr int resident_reducers = sizeof(C) == 4 && sizeof(typename R::Lane_) <= 4 ? 3 : 2;

// inner: the fastest dim is reduced. `args.lanes` threads for an output, or a block for a chunk.
template <class Op, class Projection, class C, int V>
__global__ void __launch_bounds__(kBlockThreads, (resident_reducers<Reducer<Op, Projection, C>, C>))
    reduce_inner_kernel(const __grid_constant__ ReduceArguments args) {
  using R = Reducer<Op, Projection, C>;
  using State = typename R::State;
  const int lanes = args.lanes, lane = static_cast<int>(threadIdx.x) % lanes;
  uint32_t output = blockIdx.x, chunk = 0;
  if (args.chunks > 1) {
    output = args.chunk_divider.divide(blockIdx.x);
    chunk = blockIdx.x - output * args.chunk_divider.divisor;
  } else if (lanes < kBlockThreads) {
    output = blockIdx.x * (kBlockThreads / lanes) + threadIdx.x / lanes;
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
    if (exists && lane == 0) R::store(state, args, place.results);
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
  if (threadIdx.x == 0) R::store(state, args, place.results);
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

// Rows [begin, end) of V columns, those of one lane.
template <class R, class C, int V>
__device__ __forceinline__ void collect_rows(const ReduceArguments& args, const char* input,
                                             int64_t begin, int64_t end, int lane, int valid,
                                             typename R::State (&states)[V]) {
  const auto lanes = static_cast<int64_t>(args.lanes);
  const auto row_data = [&](int64_t row) {
    if (args.inside.ndim <= 1) return input + row * args.reduced_strides[0];
    int64_t offset[1] = {0};
    add_dims(args.inside, 0, static_cast<uint32_t>(row), {args.reduced_strides}, offset);
    return input + offset[0];
  };
  typename R::Lane_ sums[V];
#pragma unroll
  for (int j = 0; j < V; ++j) R::start(sums[j]);
  int64_t count = 0;
  const auto add = [&](const C(&values)[V], int64_t row) {
    ++count;
    const double nth = R::kCounts ? 1.0 / static_cast<double>(count) : 0;
#pragma unroll
    for (int j = 0; j < V; ++j)
      R::add(sums[j], values[j], static_cast<uint32_t>(row - begin), nth, args.number);
  };
  int64_t row = begin + lane;
  if (args.whole_rows && is_aligned(input) && valid == V) {
    with_stored_type<C>(args.type, [&](auto stored) {
      using S = decltype(stored);
      constexpr int U = groups_in_flight(V * sizeof(S));
      const auto add_group = [&](const WholeGroup<S, V>& incoming, int64_t of) {
        C values[V];
        incoming.convert_to(values);
        add(values, of);
      };
      for (; row + (U - 1) * lanes < end; row += U * lanes) {
        WholeGroup<S, V> incoming[U];
#pragma unroll
        for (int u = 0; u < U; ++u) incoming[u].load(row_data(row + u * lanes));
#pragma unroll
        for (int u = 0; u < U; ++u) add_group(incoming[u], row + u * lanes);
      }
#pragma unroll 1
      for (; row < end; row += lanes) {
        WholeGroup<S, V> incoming;
        incoming.load(row_data(row));
        add_group(incoming, row);
      }
    });
  }
  for (; row < end; row += lanes) {
    C values[V];
    load_any<C, V>(args, row_data(row), args.kept_strides[0], 0, valid, values);
    add(values, row);
  }
#pragma unroll
  for (int j = 0; j < V; ++j) states[j] = R::state_of(sums[j], begin, count);
}

// outer: the fastest dim is kept. A thread has V columns, `args.columns` threads are side by side,
// `args.lanes` rows of them share the rows of a chunk, and a block has several such slots.
template <class Op, class Projection, class C, int V>
__global__ void __launch_bounds__(kBlockThreads, (resident_reducers<Reducer<Op, Projection, C>, C>))
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
#pragma unroll
  for (int j = 0; j < V; ++j) {
    if (j >= first && j < valid) {
      int64_t offsets[kMaxResults];
      for (int i = 0; i < kMaxResults; ++i)
        offsets[i] = place.results[i] + j * args.results[i].strides[0];
      R::store(states[j], args, offsets);
    }
  }
}

// Elements of one block of the short kernel, and where they are in shared memory: a word more after
// every 32, so that threads at strides of 2, 4 ... 32 meet no bank conflict.
template <class C>
inline constexpr int kShortElements = short_elements(sizeof(C));
__device__ __forceinline__ int padded(int element) { return element + element / 32; }

// short: few elements for each output, one after the other in memory. The block brings a slab of
// them to shared memory in vectors; then each thread has outputs of its own.
template <class Op, class Projection, class C, int V>
__global__ void __launch_bounds__(kBlockThreads, (resident_reducers<Reducer<Op, Projection, C>, C>))
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
    for (int i = 0; i < reduced; ++i) {
      const double nth = R::kCounts ? 1.0 / (i + 1) : 0;
      R::add(lane, shared[padded(output * reduced + i)], static_cast<uint32_t>(i), nth,
             args.number);
    }
    int64_t offsets[kMaxResults];
    for (int i = 0; i < kMaxResults; ++i)
      offsets[i] = place.results[i] + output * args.results[i].strides[0];
    R::store(R::state_of(lane, 0, reduced), args, offsets);
  }
}

}  // namespace iterlab::cuda
