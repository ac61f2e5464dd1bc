// The inner loops of reductions, in the order of Note [Same bits].
#pragma once

#include "engine/cpu/kernel_table.h"
#include "engine/cpu/vec_math.h"
#include "iterlab/reduce.h"

#include <algorithm>

namespace iterlab::cpu {
inline namespace CPU_CAPABILITY {

template <class Op, class T>
struct ReduceLoops {
  using L = Lane<T>;

  static void identity(char* accumulators, int64_t count) {
    T* const a = reinterpret_cast<T*>(accumulators);
    for (int64_t i = 0; i < count; ++i) a[i] = Op{}.template identity<L>().value;
  }

  static void combine(char* accumulators, const char* others, int64_t count) {
    T* const a = reinterpret_cast<T*>(accumulators);
    const T* const b = reinterpret_cast<const T*>(others);
    for (int64_t i = 0; i < count; ++i) a[i] = Op{}.combine(L(a[i]), L(b[i])).value;
  }

  static T fold(T (&lanes)[kLanes]) {
    for (int64_t half = kLanes / 2; half > 0; half /= 2) {
      for (int64_t l = 0; l < half; ++l)
        lanes[l] = Op{}.combine(L(lanes[l]), L(lanes[l + half])).value;
    }
    return lanes[0];
  }

  // One block of `count` <= kBlock contiguous elements into one accumulator.
  static void block(const char* data, int64_t count, char* accumulator) {
    const T* const x = reinterpret_cast<const T*>(data);
    T lanes[kLanes];
    for (T& lane : lanes) lane = Op{}.template identity<L>().value;
    int64_t i = 0;
    for (; i + kLanes <= count; i += kLanes) {
      for (int64_t l = 0; l < kLanes; ++l) lanes[l] = Op{}.combine(L(lanes[l]), L(x[i + l])).value;
    }
    for (int64_t l = 0; i + l < count; ++l) lanes[l] = Op{}.combine(L(lanes[l]), L(x[i + l])).value;
    *reinterpret_cast<T*>(accumulator) = fold(lanes);
  }

  // Rows `first` ... of a block into kLanes rows of accumulators: row i goes to lane i % kLanes.
  // Dense rows are taken kLanes at a time: they lie as the accumulators do, so that a few columns
  // make whole vectors.
  static void rows(const char* data, int64_t row_stride, int64_t first, int64_t count,
                   int64_t columns, char* lanes) {
    const int64_t bytes = columns * static_cast<int64_t>(sizeof(T));
    int64_t r = 0;
    while (r < count) {
      const int64_t lane = (first + r) % kLanes;
      const int64_t together = row_stride == bytes ? std::min(kLanes - lane, count - r) : 1;
      combine(lanes + lane * bytes, data + r * row_stride, together * columns);
      r += together;
    }
  }

  // The first `used` lane rows of a block into one row of accumulators, the first. Unused lanes
  // hold the identity.
  static void fold_rows(char* lanes, int64_t used, int64_t columns) {
    const int64_t bytes = columns * static_cast<int64_t>(sizeof(T));
    for (int64_t half = kLanes / 2; half > 0; half /= 2) {
      if (used > half) combine(lanes, lanes + half * bytes, (used - half) * columns);
      used = std::min(used, half);
    }
  }

  static void project(char* accumulators, int64_t count, int64_t reduced) {
    T* const a = reinterpret_cast<T*>(accumulators);
    const L total(Number::of(reduced).to<T>());
    for (int64_t i = 0; i < count; ++i) a[i] = Op{}.project(L(a[i]), total).value;
  }
};

template <class Op, class T>
constexpr ReduceTypeKernels reduce_type_kernels() {
  using Loops = ReduceLoops<Op, T>;
  return {&Loops::identity, &Loops::combine,   &Loops::block,
          &Loops::rows,     &Loops::fold_rows, &Loops::project};
}

// Whether some dtype of the operator is accumulated in T.
template <class Op, class T>
constexpr bool accumulates_in() {
  bool found = false;
#define ITERLAB_FIND(type, dtype, text)                  \
  found = found || (Op::dtypes.contains(DType::dtype) && \
                    accumulate_dtype(Op::accumulate, DType::dtype) == dtype_of<T>);
  ITERLAB_FORALL_STORAGE_TYPES(ITERLAB_FIND)
#undef ITERLAB_FIND
  return found;
}

template <class Op, class T>
constexpr ReduceTypeKernels reduce_type_kernels_or_none() {
  if constexpr (accumulates_in<Op, T>()) {
    return reduce_type_kernels<Op, T>();
  } else {
    return {};
  }
}

template <class Op>
constexpr ReduceKernels reduce_kernels_of() {
#define ITERLAB_ENTRY(type, dtype, text) reduce_type_kernels_or_none<Op, type>(),
  return {{ITERLAB_FORALL_COMPUTE_TYPES(ITERLAB_ENTRY)}};
#undef ITERLAB_ENTRY
}

template <class... Ops>
void append_reduce_kernels(OpList<Ops...>, const ReduceKernels**& next) {
  static constexpr ReduceKernels kernels[] = {reduce_kernels_of<Ops>()...};
  for (const ReduceKernels& one : kernels) *next++ = &one;
}

}  // namespace CPU_CAPABILITY
}  // namespace iterlab::cpu
