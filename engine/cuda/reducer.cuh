// A reduction as its kernels see it: the state of one output, made from a formula.
#pragma once

#include "engine/cuda/memory.cuh"
#include "engine/cuda/packed.cuh"
#include "engine/cuda/reduce_arguments.h"
#include "iterlab/reduce_formulas.h"

#include <cuda/atomic>

namespace iterlab::cuda {

// Through the result's dtype, where that rounds, into the dtype of the memory.
template <class T>
__device__ __forceinline__ void store_result(const ReduceResult& result, char* data, T value) {
  if (result.type == type_index(dtype_of<T>) && result.result_type == result.type) {
    *reinterpret_cast<T*>(data) = value;
    return;
  }
  if (result.result_type != result.type) value = round_through(value, result.result_type);
  store_element<T>(data, result.type, value);
}

// The results of one output.
template <class R, int outputs>
__device__ __forceinline__ void store_projected(const typename R::State& state,
                                                const ReduceArguments& args, double number,
                                                const int64_t (&offsets)[kMaxResults]) {
  Lane<typename R::Result> results[outputs];
  R::project(state, args, number, results);
#pragma unroll
  for (int i = 0; i < outputs; ++i)
    store_result(args.results[i], args.results[i].data + offsets[i], results[i].value);
}

// What was collected of one output. (Not by [[no_unique_address]]: nvcc 13 steps through arrays of
// such a struct by more than its sizeof.)
template <class T, int N, bool counts>
struct Collection {
  Lane<T> value[N];
};
template <class T, int N>
struct Collection<T, N, true> {
  Lane<T> value[N];
  int64_t count;
};

// Folds, moments, norms: a Formula of iterlab/reduce_formulas.h. C: the compute type that elements
// are converted to. A lane collects in B, which is narrow where that is exact for as many elements
// as a lane sees (65536 of 16 bits), and states are of T.
template <class Op, class Projection, class C>
struct Reducer {
  using T = AccumulateType<Op, C>;
  using F = formulas::FormulaOf<typename Projection::Formula, T>;
  static constexpr int kOutputs = Op::num_outputs;
  static constexpr bool kExact = std::is_integral_v<T>;
  static constexpr bool kCounts = F::kCounts;
  static constexpr bool kPositions = false;
  static constexpr bool kShifted = false;
  static constexpr int N = F::components;
  template <class E, bool exact>
  struct Collects {
    using Type = T;
  };
  template <class E>
  struct Collects<E, true> {
    using Type = typename F::template Block<E, T>;
  };
  using B = typename Collects<C, kExact>::Type;

  struct Lane_ {
    Lane<B> value[N];
  };
  using State = Collection<T, N, kCounts>;

  static __device__ __forceinline__ B element(C x) {
    if constexpr (kExact && requires { F::template map<B>(x); }) {
      return F::template map<B>(x);
    } else if constexpr (is_complex_v<C> && !is_complex_v<B>) {
      return F::template map<B>(x);
    } else {
      return convert_compute<B>(x);
    }
  }

  static __device__ __forceinline__ void start(Lane_& lane) { F::start(lane.value); }
  static __device__ __forceinline__ void start(State& state) {
    F::start(state.value);
    if constexpr (kCounts) state.count = 0;
  }
  // `nth`: 1 / k for the lane's k-th element.
  static __device__ __forceinline__ void add(Lane_& lane, C x, uint32_t, double nth,
                                             double number) {
    F::add(lane.value, Lane<B>(element(x)), reducing::filled<Lane<B>>(nth), number);
  }
  // Four elements of a byte each.
  static constexpr bool kPacked = PackedBytes<F, C>::kExists;
  static __device__ __forceinline__ void add_word(Lane_& lane, uint32_t word) {
    lane.value[0] = Lane<B>(PackedBytes<F, C>::add(lane.value[0].value, word));
  }
  static __device__ __forceinline__ State state_of(const Lane_& lane, int64_t, int64_t count) {
    State state;
#pragma unroll
    for (int n = 0; n < N; ++n) {
      if constexpr (requires { F::narrow(lane.value[n].value); }) {
        state.value[n] = Lane<T>(F::narrow(lane.value[n].value));
      } else {
        state.value[n] = convert_compute<T>(lane.value[n].value);
      }
    }
    if constexpr (kCounts) state.count = count;
    return state;
  }

  // `other` stands for later elements.
  static __device__ __forceinline__ void combine(State& state, const State& other) {
    formulas::Meeting<Lane<T>> meet{Lane<T>(T(0)), Lane<T>(T(0))};
    if constexpr (kCounts) {
      if (other.count == 0) return;
      if (state.count == 0) {
        state = other;
        return;
      }
      const auto a = static_cast<double>(state.count), b = static_cast<double>(other.count);
      meet = {reducing::filled<Lane<T>>(b / (a + b)), reducing::filled<Lane<T>>(a * (b / (a + b)))};
      state.count += other.count;
    }
    F::combine(state.value, other.value, meet);
  }

  using Result = T;
  static __device__ __forceinline__ void project(const State& state, const ReduceArguments& args,
                                                 double, Lane<T> (&results)[Op::num_outputs]) {
    Projection::project(state.value, static_cast<double>(args.reduced), args.number, results);
  }
  static __device__ __forceinline__ void store(const State& state, const ReduceArguments& args,
                                               double number,
                                               const int64_t (&offsets)[kMaxResults]) {
    store_projected<Reducer, Op::num_outputs>(state, args, number, offsets);
  }
};

// One element, through the dtype that elements are converted to.
template <class C>
__device__ __forceinline__ C load_rounded(const ReduceArguments& args, const char* data) {
  const C x = load_element<C>(data, args.type);
  return args.element_type < 0 ? x : round_through(x, args.element_type);
}

// Note [Shifted moments]
// Moments of float and the half types are sums, in double, of the distances from the output's first
// element and of their squares: four instructions an element and an addition where collections
// meet, where Welford's update waits for itself and Chan's formula divides. The squares add up to
// at most n + 1 times what is left of them, as the first element is one of n: no more than n units
// of 2^-53 are lost, and about none where it is like the others.
template <class Op, class Projection>
  requires(std::same_as<typename Projection::Formula, formulas::Moments> &&
           Op::facts.accumulate == Accumulate::Double)
struct Reducer<Op, Projection, float> {
  static constexpr int kOutputs = Op::num_outputs;
  static constexpr bool kCounts = false;
  static constexpr bool kPositions = false;
  static constexpr bool kPacked = false;
  static constexpr bool kShifted = true;

  struct Lane_ {
    double sum, squares;
  };
  using State = Lane_;

  static __device__ __forceinline__ double origin(float first) {
    return isfinite(first) ? first : 0;
  }
  static __device__ __forceinline__ void start(Lane_& lane) { lane = {0, 0}; }
  static __device__ __forceinline__ void add(Lane_& lane, float x, uint32_t, double,
                                             double origin) {
    const double distance = static_cast<double>(x) - origin;
    lane.sum += distance;
    lane.squares = std::fma(distance, distance, lane.squares);
  }
  static __device__ __forceinline__ State state_of(const Lane_& lane, int64_t, int64_t) {
    return lane;
  }
  static __device__ __forceinline__ void combine(State& state, const State& other) {
    state.sum += other.sum;
    state.squares += other.squares;
  }
  using Result = double;
  static __device__ __forceinline__ void project(const State& state, const ReduceArguments& args,
                                                 double origin,
                                                 Lane<double> (&results)[Op::num_outputs]) {
    const auto count = static_cast<double>(args.reduced);
    Lane<double> total[2] = {Lane<double>(0.0), Lane<double>(0.0)};
    if (args.reduced > 0) {
      const double mean = state.sum / count, left = state.squares - state.sum * mean;
      total[0] = Lane<double>(origin + mean);
      total[1] = Lane<double>(left < 0 ? 0 : left);  // NaN stays
    }
    Projection::project(total, count, args.number, results);
  }
  static __device__ __forceinline__ void store(const State& state, const ReduceArguments& args,
                                               double origin,
                                               const int64_t (&offsets)[kMaxResults]) {
    store_projected<Reducer, Op::num_outputs>(state, args, origin, offsets);
  }
};

// max, min, argmax, argmin: the best element and its position, the smallest of equals.
template <class Op, class Projection, class C>
  requires requires { Projection::Formula::kPosition; }
struct Reducer<Op, Projection, C> {
  using F = typename Projection::Formula;
  static constexpr int kOutputs = Op::num_outputs;
  static constexpr bool kCounts = false;
  static constexpr bool kPositions = true;
  static constexpr bool kShifted = false;
  static constexpr bool kPacked = false;
  static constexpr uint32_t kNone = ~uint32_t{0};

  struct Lane_ {
    C value;
    uint32_t at;  // within the chunk
  };
  struct State {
    C value;
    int64_t at;
  };

  static __device__ __forceinline__ C worst() {
    Lane<C> value;
    F::Value::start(&value);
    return value.value;
  }
  static __device__ __forceinline__ void start(Lane_& lane) { lane = {worst(), kNone}; }
  static __device__ __forceinline__ void start(State& state) { state = {worst(), INT64_MAX}; }
  // A lane's elements come in order. Where none is better than the worst of all values, all are
  // equal to it, and the first of them is the output's first element.
  static __device__ __forceinline__ void add(Lane_& lane, C x, uint32_t at, double, double) {
    const bool better = F::better(x, lane.value);
    lane.value = better ? x : lane.value;
    lane.at = better ? at : lane.at;
  }
  static __device__ __forceinline__ State state_of(const Lane_& lane, int64_t first, int64_t) {
    return {lane.value, lane.at == kNone ? INT64_MAX : first + lane.at};
  }
  static __device__ __forceinline__ void combine(State& state, const State& other) {
    const bool better = F::better(other.value, state.value);
    const bool equal = !better && !F::better(state.value, other.value);
    if ((better && other.at != INT64_MAX) || (equal && other.at < state.at) ||
        state.at == INT64_MAX) {
      state = other;
    }
  }
  static __device__ __forceinline__ void store(const State& state, const ReduceArguments& args,
                                               double, const int64_t (&offsets)[kMaxResults]) {
    if constexpr (Op::num_outputs == 2) {
      store_result<C>(args.results[0], args.results[0].data + offsets[0], state.value);
    }
    constexpr int last = Op::num_outputs - 1;
    store_result<int64_t>(args.results[last], args.results[last].data + offsets[last],
                          state.at == INT64_MAX ? 0 : state.at);
  }
};

// A state, or anything else of words, from a lane of the warp `down` further.
template <class S>
__device__ __forceinline__ S shuffle_down(const S& state, int down, int width) {
  constexpr int kWords = (sizeof(S) + 3) / 4;
  uint32_t word[kWords] = {};
  std::memcpy(word, &state, sizeof(S));
#pragma unroll
  for (int i = 0; i < kWords; ++i) word[i] = __shfl_down_sync(~0u, word[i], down, width);
  S other;
  std::memcpy(&other, word, sizeof(S));
  return other;
}

// Folds the states of `width` neighbouring lanes of a warp into the first. All lanes call it.
template <class R>
__device__ __forceinline__ void fold_lanes(typename R::State& state, int width) {
  for (int half = width / 2; half > 0; half /= 2) {
    const typename R::State other = shuffle_down(state, half, width);
    R::combine(state, other);
  }
}

// Folds the states of a block into its first thread. All threads call it.
template <class R>
__device__ __forceinline__ void fold_block(typename R::State& state) {
  constexpr int kWarps = kBlockThreads / 32;
  __shared__ alignas(16) char shared[kWarps * sizeof(typename R::State)];
  auto* const warps = reinterpret_cast<typename R::State*>(shared);
  fold_lanes<R>(state, 32);
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = state;
  __syncthreads();
  if (threadIdx.x < 32) {
    if (threadIdx.x < kWarps) {
      state = warps[threadIdx.x];
    } else {
      R::start(state);
    }
    fold_lanes<R>(state, kWarps);
  }
  __syncthreads();
}

// Note [Tickets]
// The last of the blocks that share an output combines their states, in their order, so that one
// launch does. Each block writes its states, makes them visible, and takes a ticket; who gets the
// last one finds all states written: taking it releases what the block's threads have written
// before the barrier, and acquires what the others have. The counter is then 0 again for the next
// launch on the stream.
__device__ __forceinline__ bool take_ticket(uint32_t* ticket, uint32_t count) {
  const ::cuda::atomic_ref<uint32_t, ::cuda::thread_scope_device> taken(*ticket);
  const bool last = taken.fetch_add(1, ::cuda::memory_order_acq_rel) == count - 1;
  if (last) taken.store(0, ::cuda::memory_order_relaxed);
  return last;
}

// States between blocks do not pass through L1.
template <class S>
__device__ __forceinline__ S load_state(const S* from) {
  using Word = std::conditional_t<sizeof(S) % 4 == 0, unsigned int, unsigned char>;
  constexpr int kWords = sizeof(S) / sizeof(Word);
  Word word[kWords];
#pragma unroll
  for (int i = 0; i < kWords; ++i) word[i] = __ldcg(reinterpret_cast<const Word*>(from) + i);
  S state;
  std::memcpy(&state, word, sizeof(S));
  return state;
}

}  // namespace iterlab::cuda
