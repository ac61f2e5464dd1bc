// The reduction kernels, one template for each form.
#pragma once

#include "engine/cuda/columns.cuh"
#include "engine/cuda/staging.cuh"

namespace iterlab::cuda {

// Blocks that an SM shall hold. With 80 registers a thread, light formulas keep a third block's
// loads in flight while another's threads combine what they have; with the 16 bytes of a row that a
// thread of the outer kernel has, a fourth. The short kernel's loads are in no registers: a fifth.
template <class R, class C>
inline constexpr int resident_short = sizeof(C) <= 4 && sizeof(typename R::Lane_) <= 4 ? 5 : 2;
template <class R, class C>
inline constexpr int resident_inner =
    R::kPacked || (sizeof(C) == 4 && sizeof(typename R::Lane_) <= 4) ? 3 : 2;
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
  const int lanes = args.lanes, lane = static_cast<int>(threadIdx.x) & (lanes - 1);
  uint32_t output = blockIdx.x, chunk = 0;
  if (args.chunks > 1) {
    output = args.chunk_divider.divide(blockIdx.x);
    chunk = blockIdx.x - output * args.chunk_divider.divisor;
  } else if (lanes < kBlockThreads) {
    const int bits = exponent(lanes);
    output = blockIdx.x * (blockDim.x >> bits) + (threadIdx.x >> bits);
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

// outer: the fastest dim is kept. A thread has V columns, `args.abreast` threads are side by side,
// `args.lanes` rows of them share the rows of a chunk, and a block has several such slots. What the
// lanes have collected meets in shared memory, and from there on threads have whole columns.
template <class Op, class Projection, class C, int V>
__global__ void __launch_bounds__(kBlockThreads, (resident_outer<Reducer<Op, Projection, C>, C>))
    reduce_outer_kernel(const __grid_constant__ ReduceArguments args) {
  using R = Reducer<Op, Projection, C>;
  using State = typename R::State;
  __shared__ alignas(16) char shared[kBlockThreads * V * sizeof(State)];
  __shared__ bool is_last[kBlockThreads];
  auto* const room = reinterpret_cast<State*>(shared);
  fetch_arguments<kHotArguments>(args);
  const auto thread = static_cast<int>(threadIdx.x);
  // Threads abreast, lanes and slots are powers of two.
  const int abreast_bits = exponent(args.abreast), slot_bits = abreast_bits + exponent(args.lanes);
  const int slots = kBlockThreads >> slot_bits;
  const ColumnBlock columns(args, slots);
  const int wide = args.columns, all = slots * wide;
  bool stored;
  {
    const int lane = (thread >> abreast_bits) & (args.lanes - 1), slot = thread >> slot_bits;
    const ColumnPlace place = columns.place(slot, 0);
    OutputPlace output;
    if (place.exists) {
      output.add(args, 1, place.outer);
      output.move(args.dims[0].kept, place.column);
    }
    const char* const input = args.input + output.input;
    const int64_t begin = place.chunk * args.chunk;
    const int64_t end = min(args.reduced, begin + args.chunk);
    // The thread's columns, counted from the block's first: V from `start`, of which it keeps
    // [from, to). Where they do not start at a boundary, the last are moved back so as to exist.
    const auto count =
        static_cast<int>(min(args.kept_size - place.column, static_cast<int64_t>(wide)));
    int start = (thread & (args.abreast - 1)) * V, from = start;
    if (args.whole_rows) {
      const char* const row = input + (begin + lane) * args.dims[0].reduced.stride;
      const int access = min(16, V * args.size);
      start -=
          static_cast<int>(reinterpret_cast<uintptr_t>(row) & (access - 1)) >> exponent(args.size);
      from = max(start, 0);
    } else if (args.kept_size >= V) {
      start = static_cast<int>(min(static_cast<int64_t>(start), args.kept_size - place.column - V));
    }
    const int to = place.exists ? min(start + V, count) : from;
    const int first = args.whole_rows ? from - start : 0;
    const int last = args.whole_rows || args.kept_size < V ? to - start : V;
    const char* const data = input + start * args.size;
    State states[V];
    wait_for_earlier();
    collect_rows<R, C, V>(args, data, begin, from < to ? end : begin, lane, first, last, states);
    let_next_start();
    stored = from >= to;
    if constexpr (!R::kPositions && Op::num_outputs == 1) {
      // Short columns: what a thread has is the whole of its own.
      if (args.lanes == 1 && from == start && to == start + V) {
        double numbers[V];
        numbers_for<R, C, V>(args, data, 0, V, numbers);
        stored = store_together<R>(states, args, numbers,
                                   output.results[0] + start * args.dims[0].kept.results[0]);
      }
    }
    State* const states_of_lane = room + lane * all + slot * wide;
#pragma unroll
    for (int j = 0; j < V; ++j) {
      if (start + j >= from && start + j < to) states_of_lane[start + j] = states[j];
    }
  }
  if (__syncthreads_and(stored)) return;
  fold_rows<R>(args.lanes, all, room);
  finish_columns<R, C, kOuterGroupBits>(args, columns, room, is_last);
}

// The order of the vectors of a row in shared memory, 16 bytes each. Eight threads read one each at
// a time, `lanes` of a row: where rows are a multiple of 64 bytes, rows that would begin at the
// same banks have their vectors exchanged.
struct Swizzle {
  int mask, left, right;

  __device__ __forceinline__ Swizzle(int vectors, int lanes)
      : mask(vectors % 8 == 0   ? 7
             : vectors % 4 == 0 ? 3
                                : 0),
        left(exponent(lanes)),
        right(mask == 7 ? 0 : 1) {}
  // Where the vector at `bytes` of a row is.
  __device__ __forceinline__ int of(int row, int bytes) const {
    return bytes ^ (row >> right << left & mask) * 16;
  }
};

// short: rows of which a block has several. It brings them to shared memory, as they are where they
// are runs of usual types (args.whole_rows), others element by element. Then args.lanes threads
// take an output, groups of 16 bytes in turn.
// short outer: matrices of short columns. Blocks bring them as such rows, and a thread takes a
// column.
template <class R, class C, bool matrices>
struct ShortRun {
  const ReduceArguments& args;
  char* const shared;
  const char* input;  // of the block
  OutputPlace place;
  int rows, reduced;  // rows, or matrices

  __device__ __forceinline__ ShortRun(const ReduceArguments& arguments, char* bytes)
      : args(arguments), shared(bytes), reduced(static_cast<int>(args.reduced)) {
    const uint32_t outer = args.column_divider.divide(blockIdx.x);
    const int64_t slab = blockIdx.x - outer * args.column_divider.divisor;
    const int64_t first = slab * args.columns;
    rows = static_cast<int>(min(static_cast<int64_t>(args.columns), args.kept_size - first));
    place.add(args, 1, outer);
    place.move(args.dims[0].kept, first);
    input = args.input + place.input;
  }

  // Stores the outputs. take(row, column, at, count, sum, add) adds `count` elements of one from
  // element `at` on, a group of V or what is left, each by add(value, at) or all of them to `sum`.
  template <class Fn>
  __device__ __forceinline__ void finish(int V, const Fn& take) const {
    const int bits = exponent(args.lanes), lane = static_cast<int>(threadIdx.x) & (args.lanes - 1);
    const int whole = reduced / V, outputs = matrices ? rows * args.beside : rows;
    const KeptDim& along = args.dims[0].kept;
    for (int first = 0; first < outputs; first += static_cast<int>(blockDim.x) >> bits) {
      const int output = first + (static_cast<int>(threadIdx.x) >> bits);
      int row = output, column = 0;
      if constexpr (matrices) {
        row = static_cast<int>(args.row_divider.divide(static_cast<uint32_t>(output)));
        column = output - row * args.beside;
      }
      const bool exists = output < outputs;
      typename R::Lane_ sum;
      R::start(sum);
      double number = 0;
      int count = 0;
      if (exists) {
        number = number_for<R, C>(args, input + row * along.stride + column * args.size);
        const auto add = [&](C value, int at) {
          ++count;
          R::add(sum, value, static_cast<uint32_t>(at), R::kCounts ? 1.0 / count : 0, number);
        };
        int group = lane;
        for (; group < whole; group += args.lanes) take(row, column, group * V, V, sum, add);
        const int rest = reduced - group * V;
        if (group == whole && rest > 0) take(row, column, group * V, rest, sum, add);
      }
      typename R::State state = R::state_of(sum, 0, count);
      fold_lanes<R>(state, args.lanes);
      if (!exists || lane != 0) continue;
      int64_t offsets[kMaxResults];
      for (int i = 0; i < kMaxResults; ++i) {
        offsets[i] = place.results[i] + row * along.results[i];
        if constexpr (matrices) offsets[i] += column * args.dims[args.kept_dims].kept.results[i];
      }
      R::store(state, args, number, offsets);
    }
  }

  // Elements stored as S.
  template <class S>
  __device__ __forceinline__ void follow() const {
    constexpr int kSize = static_cast<int>(sizeof(S)), V = 16 / kSize;
    const int step = matrices ? kSize * args.beside : kSize;  // to an output's next element
    const int length = reduced * step, pitch = static_cast<int>(args.pitch);
    const int before = static_cast<int>(reinterpret_cast<uintptr_t>(input) & 15);
    const bool vectors = !matrices && before == 0 && length % 16 == 0 && pitch % 16 == 0;
    const bool together = pitch == length;
    const Swizzle swizzle(vectors && together ? length / 16 : 1, args.lanes);
    if (swizzle.mask == 0) {
      copy_runs(shared + before, input, together ? 1 : rows, args.dims[0].kept.stride,
                together ? rows * length : length, pitch);
    } else {
      for (int at = static_cast<int>(threadIdx.x) * 16; at < rows * length;
           at += static_cast<int>(blockDim.x) * 16) {
        const auto row =
            static_cast<int>(args.row_divider.divide(static_cast<uint32_t>(at / kSize)));
        copy_16(shared + row * length + swizzle.of(row, at - row * length), input + at);
      }
    }
    wait_for_copies();
    let_next_start();
    const auto start = static_cast<uint32_t>(__cvta_generic_to_shared(shared)) + before;
    finish(V, [&](int row, int column, int at, int count, typename R::Lane_& sum, const auto& add) {
      const uint32_t from = start + row * pitch + column * kSize +
                            (vectors ? swizzle.of(row, at * kSize) : at * step);
      const auto add_one = [&](int j) {
        const ElementBits<S> bits = load_shared<S>(from + j * step);
        add(convert_bytes<C, S>(reinterpret_cast<const char*>(&bits)), at + j);
      };
      if (count < V) {
        for (int j = 0; j < count; ++j) add_one(j);
        return;
      }
      if constexpr (matrices) {
#pragma unroll
        for (int j = 0; j < V; ++j) add_one(j);
        return;
      }
      uint32_t word[4];
      if (vectors) {
        const uint4 bits = load_shared<uint4>(from);
        word[0] = bits.x, word[1] = bits.y, word[2] = bits.z, word[3] = bits.w;
      } else {
        load_loose<S>(from, word);
      }
      if constexpr (R::kPacked) {
#pragma unroll
        for (int w = 0; w < 4; ++w) R::add_word(sum, word[w]);
      } else {
#pragma unroll
        for (int j = 0; j < V; ++j)
          add(convert_bytes<C, S>(reinterpret_cast<const char*>(word) + j * kSize), at + j);
      }
    });
  }

  // Elements of any type, anywhere. After every 32 of them a word is left out, so that few threads
  // meet at a bank.
  __device__ __forceinline__ void any() const {
    C* const values = reinterpret_cast<C*>(shared);
    const int64_t pitch = args.dims[0].kept.stride, stride = args.dims[0].reduced.stride;
    const auto padded = [](int element) { return element + element / 32; };
    const auto bring = [&](const auto& load) {
#pragma unroll 4
      for (int element = static_cast<int>(threadIdx.x); element < rows * reduced;
           element += static_cast<int>(blockDim.x)) {
        const auto row = static_cast<int>(args.row_divider.divide(element));
        values[padded(element)] = load(input + row * pitch + (element - row * reduced) * stride);
      }
    };
    const bool brought = args.element_type < 0 && with_stored_type<C>(
                                                      args.type,
                                                      [&](auto stored) {
                                                        bring([](const char* data) {
                                                          return load_as<C, decltype(stored)>(data);
                                                        });
                                                      });
    if (!brought) bring([&](const char* data) { return load_rounded<C>(args, data); });
    __syncthreads();
    let_next_start();
    finish(16 / args.size,
           [&](int row, int, int at, int count, typename R::Lane_&, const auto& add) {
             for (int j = 0; j < count; ++j) add(values[padded(row * reduced + at + j)], at + j);
           });
  }
};

template <class Op, class Projection, class C>
__global__ void __launch_bounds__(kBlockThreads, (resident_short<Reducer<Op, Projection, C>, C>))
    reduce_short_kernel(const __grid_constant__ ReduceArguments args) {
  extern __shared__ __align__(16) char shared_bytes[];
  fetch_arguments<kHotArguments>(args);
  const ShortRun<Reducer<Op, Projection, C>, C, false> run(args, shared_bytes);
  wait_for_earlier();
  if (args.whole_rows) {
    with_stored_type<C>(args.type, [&](auto stored) { run.template follow<decltype(stored)>(); });
  } else {
    run.any();
  }
}

template <class Op, class Projection, class C>
__global__ void __launch_bounds__(kBlockThreads, (resident_short<Reducer<Op, Projection, C>, C>))
    reduce_short_outer_kernel(const __grid_constant__ ReduceArguments args) {
  extern __shared__ __align__(16) char shared_bytes[];
  fetch_arguments<kHotArguments>(args);
  const ShortRun<Reducer<Op, Projection, C>, C, true> run(args, shared_bytes);
  wait_for_earlier();
  with_stored_type<C>(args.type, [&](auto stored) { run.template follow<decltype(stored)>(); });
}

}  // namespace iterlab::cuda
