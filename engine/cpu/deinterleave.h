// Shuffles of vectors that hold rows of a few elements, one row after another.
#pragma once

#include "engine/cpu/reduce_vec.h"

#include <utility>

namespace iterlab::cpu {
inline namespace CPU_CAPABILITY {

#if defined(CPU_CAPABILITY_AVX512)
ITERLAB_FN __m512 raw(const at::vec::Vectorized<float>& v) { return v; }
ITERLAB_FN __m512d raw(const at::vec::Vectorized<double>& v) { return v; }
#elif defined(CPU_CAPABILITY_AVX2)
ITERLAB_FN __m256 raw(const at::vec::Vectorized<float>& v) { return v; }
ITERLAB_FN __m256d raw(const at::vec::Vectorized<double>& v) { return v; }
#endif

// A vector whose lane i is element Index::at(i) of a and b, one after the other.
template <class Index, class V, size_t... lane>
ITERLAB_FN V shuffled(const V& a, const V& b, std::index_sequence<lane...>) {
  const auto low = raw(a), high = raw(b);
  return V(__builtin_shufflevector(low, high, Index::at(static_cast<int>(lane))...));
}

// One half of each row of kRow elements: the lower one, or with kHalf = 1 the upper one.
template <int kRow, int kHalf>
struct HalfRow {
  static constexpr int at(int lane) {
    return lane / (kRow / 2) * kRow + kHalf * (kRow / 2) + lane % (kRow / 2);
  }
};
// Element kElement of rows of kCount, as far as vector kVector (from 1) holds them: lanes of later
// vectors have any value, those of earlier ones the value that they had, in the first operand.
template <int kCount, int kElement, int kVector, int kWidth>
struct FromVector {
  static constexpr int at(int lane) {
    const int position = lane * kCount + kElement;
    if (position / kWidth == kVector) return kWidth + position % kWidth;
    return kVector == 1 && position < kWidth ? position : lane;
  }
};

template <class Index, class V>
ITERLAB_FN V shuffled(const V& a, const V& b) {
  return shuffled<Index>(a, b, std::make_index_sequence<VectorAccess<V>::width>());
}

template <int kCount, int kElement, int kVector, class V>
ITERLAB_FN V gathered(const V* x, const V& before) {
  constexpr int kWidth = static_cast<int>(VectorAccess<V>::width);
  const V joined = shuffled<FromVector<kCount, kElement, kVector, kWidth>>(before, x[kVector]);
  if constexpr (kVector + 1 < kCount) return gathered<kCount, kElement, kVector + 1>(x, joined);
  return joined;
}
template <int kCount, class V, int... element>
ITERLAB_FN void gather_all(const V* x, V* out, std::integer_sequence<int, element...>) {
  ((out[element] = gathered<kCount, element, 1>(x, x[0])), ...);
}

// kCount vectors of W rows become kCount vectors of W elements: lane i of x[l] is element l of row
// i.
template <int kCount, class V>
ITERLAB_FN void deinterleave(V (&x)[kCount]) {
  if constexpr (VectorAccess<V>::width > 1) {
    V out[kCount];
    gather_all<kCount>(x, out, std::make_integer_sequence<int, kCount>());
#pragma GCC unroll 8
    for (int l = 0; l < kCount; ++l) x[l] = out[l];
  }
}

}  // namespace CPU_CAPABILITY
}  // namespace iterlab::cpu
