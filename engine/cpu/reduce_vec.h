// The mathematics of reduction formulas for SIMD vectors, and how elements become vectors.
#pragma once

#include "engine/cpu/cast.h"
#include "engine/cpu/vec_math.h"
#include "iterlab/reduce.h"
#include "iterlab/reduce_math.h"

namespace iterlab {
namespace reducing {

template <class T>
using Vec = at::vec::Vectorized<T>;

// max_ps and its kin give the second operand where either is NaN or both are equal, so that only a
// NaN in the first has to be kept: two instructions, where at::vec::maximum takes four. The first
// is the new element, so that what is compared does not wait for what was collected.
#if defined(CPU_CAPABILITY_AVX512)
#define ITERLAB_EXTREME(name, instruction)                                                \
  ITERLAB_FN Vec<float> name(const Vec<float>& a, const Vec<float>& b) {                  \
    return _mm512_mask_##instruction##_ps(b, _mm512_cmp_ps_mask(b, b, _CMP_ORD_Q), b, a); \
  }                                                                                       \
  ITERLAB_FN Vec<double> name(const Vec<double>& a, const Vec<double>& b) {               \
    return _mm512_mask_##instruction##_pd(b, _mm512_cmp_pd_mask(b, b, _CMP_ORD_Q), b, a); \
  }
#elif defined(CPU_CAPABILITY_AVX2)
#define ITERLAB_EXTREME(name, instruction)                                  \
  ITERLAB_FN Vec<float> name(const Vec<float>& a, const Vec<float>& b) {    \
    return _mm256_blendv_ps(_mm256_##instruction##_ps(b, a), b,             \
                            _mm256_cmp_ps(b, b, _CMP_UNORD_Q));             \
  }                                                                         \
  ITERLAB_FN Vec<double> name(const Vec<double>& a, const Vec<double>& b) { \
    return _mm256_blendv_pd(_mm256_##instruction##_pd(b, a), b,             \
                            _mm256_cmp_pd(b, b, _CMP_UNORD_Q));             \
  }
#else
#define ITERLAB_EXTREME(name, instruction)                                   \
  template <class T>                                                         \
  ITERLAB_FN Vec<T> name(const Vec<T>& a, const Vec<T>& b) {                 \
    return Vec<T>::blendv(Vec<T>::blendv(a, b, b instruction a), b, b != b); \
  }
#endif
#if defined(CPU_CAPABILITY_AVX512) || defined(CPU_CAPABILITY_AVX2)
ITERLAB_EXTREME(maximum, max)
ITERLAB_EXTREME(minimum, min)
#else
ITERLAB_EXTREME(maximum, >)
ITERLAB_EXTREME(minimum, <)
#endif
#undef ITERLAB_EXTREME

// a * b + c, rounded once where the instruction set can.
template <class T>
ITERLAB_FN Vec<T> fma(const Vec<T>& a, const Vec<T>& b, const Vec<T>& c) {
  return at::vec::fmadd(a, b, c);
}
template <class T>
ITERLAB_FN Vec<T> minus(const Vec<T>& a, const Vec<T>& b) {
  return a - b;
}
template <class T>
ITERLAB_FN Vec<T> divide(const Vec<T>& a, const Vec<T>& b) {
  return a / b;
}
template <class T>
ITERLAB_FN Vec<T> square(const Vec<T>& x) {
  return x * x;
}
template <class T>
ITERLAB_FN Vec<T> sqrt(const Vec<T>& x) {
  return x.sqrt();
}
// at::vec's fast form for float: within 2 units in the last place, at three times the speed of
// SLEEF's. NaN may become a number.
template <class T>
ITERLAB_FN Vec<T> fast_exp(const Vec<T>& x) {
  return x.exp_u20();
}
template <class T>
ITERLAB_FN Vec<T> log(const Vec<T>& x) {
  return x.log();
}
template <class T>
ITERLAB_FN Vec<T> abs(const Vec<T>& x) {
  return x.abs();
}
template <class T>
ITERLAB_FN Vec<T> pow(const Vec<T>& x, const Vec<T>& exponent) {
  return x.pow(exponent);
}
template <class T>
ITERLAB_FN Vec<T> is_nonzero(const Vec<T>& x) {
  return x.ne(Vec<T>(T(0)));
}
template <class T>
ITERLAB_FN Vec<T> is_number(const Vec<T>& x) {
  return x.eq(x);
}
template <class T>
ITERLAB_FN Vec<T> zero_if_nan(const Vec<T>& x) {
  return math::select(math::eq(x, x), x, Vec<T>(T(0)));
}
template <class T>
ITERLAB_FN Vec<T> weighted(const Vec<T>& x, const Vec<T>& weight) {
  const Vec<T> zero(T(0));
  return math::select(math::eq(weight, zero), zero, x * weight);
}
template <class T>
ITERLAB_FN bool all_at_most(const Vec<T>& a, const Vec<T>& b) {
  return math::all(math::le(a, b));
}
template <class T>
ITERLAB_FN Vec<T> select_at_most(const Vec<T>& a, const Vec<T>& b, const Vec<T>& x,
                                 const Vec<T>& otherwise) {
  return math::select(math::le(a, b), x, otherwise);
}
template <class T>
ITERLAB_FN Vec<T> distance(const Vec<T>& a, const Vec<T>& b) {
  return math::select(math::eq(a, b), Vec<T>(T(0)), a - b);
}

}  // namespace reducing

namespace cpu {
inline namespace CPU_CAPABILITY {

// V over one accumulate type T: a SIMD vector for float and double, a Lane for complex numbers.
template <class T>
inline constexpr bool reduces_in_vectors = std::is_floating_point_v<T>;
template <class T>
using ReduceVector = std::conditional_t<reduces_in_vectors<T>, at::vec::Vectorized<T>, Lane<T>>;

template <class V>
struct VectorAccess {
  using T = typename V::value_type;
  static constexpr int64_t width = V::size();
  static V load(const T* data) { return V::loadu(data); }
  static V load(const T* data, int64_t count) { return V::loadu(data, count); }
  static void store(T* data, const V& v) { v.store(data); }
  static void store(T* data, const V& v, int64_t count) { v.store(data, static_cast<int>(count)); }
  // The first `count` lanes of b, the others of a.
  static V merge(const V& a, const V& b, int64_t count) { return V::set(a, b, count); }
};
template <class T_>
struct VectorAccess<Lane<T_>> {
  using T = T_;
  static constexpr int64_t width = 1;
  static Lane<T> load(const T* data) { return *data; }
  static Lane<T> load(const T* data, int64_t) { return *data; }
  static void store(T* data, Lane<T> v) { *data = v.value; }
  static void store(T* data, Lane<T> v, int64_t) { *data = v.value; }
  static Lane<T> merge(Lane<T> a, Lane<T> b, int64_t count) { return count > 0 ? b : a; }
};

// VectorAccess<V>::width elements of type E, widened to V's type.
template <class V, class E>
ITERLAB_FN V load_elements(const E* data) {
  using T = typename V::value_type;
  constexpr int64_t width = VectorAccess<V>::width;
  if constexpr (std::is_same_v<E, T>) {
    return VectorAccess<V>::load(data);
  } else {
#if defined(CPU_CAPABILITY_AVX512)
    if constexpr (std::is_same_v<T, float> && std::is_same_v<E, BFloat16>) {
      const __m256i raw = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(data));
      return _mm512_castsi512_ps(
          _mm512_maskz_slli_epi32(0xFFFF, _mm512_maskz_cvtepu16_epi32(0xFFFF, raw), 16));
    }
    if constexpr (std::is_same_v<T, float> && std::is_same_v<E, Half>) {
      return _mm512_maskz_cvtph_ps(0xFFFF,
                                   _mm256_loadu_si256(reinterpret_cast<const __m256i*>(data)));
    }
    if constexpr (std::is_same_v<T, double> && std::is_same_v<E, float>) {
      return _mm512_maskz_cvtps_pd(0xFF, _mm256_loadu_ps(data));
    }
    if constexpr (std::is_same_v<T, double> && std::is_same_v<E, BFloat16>) {
      const __m128i raw = _mm_loadu_si128(reinterpret_cast<const __m128i*>(data));
      return _mm512_maskz_cvtps_pd(
          0xFF, _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(raw), 16)));
    }
    if constexpr (std::is_same_v<T, double> && std::is_same_v<E, Half>) {
      return _mm512_maskz_cvtps_pd(
          0xFF, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(data))));
    }
#elif defined(CPU_CAPABILITY_AVX2)
    if constexpr (std::is_same_v<T, float> && std::is_same_v<E, BFloat16>) {
      const __m128i raw = _mm_loadu_si128(reinterpret_cast<const __m128i*>(data));
      return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(raw), 16));
    }
    if constexpr (std::is_same_v<T, float> && std::is_same_v<E, Half>) {
      return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(data)));
    }
    if constexpr (std::is_same_v<T, double> && std::is_same_v<E, float>) {
      return _mm256_cvtps_pd(_mm_loadu_ps(data));
    }
#endif
    T wide[width];
    for (int64_t i = 0; i < width; ++i) wide[i] = static_cast<T>(data[i]);
    return VectorAccess<V>::load(wide);
  }
}

// The first `count` of them; the others are zero.
template <class V, class E>
ITERLAB_FN V load_elements(const E* data, int64_t count) {
  using T = typename V::value_type;
  constexpr int64_t width = VectorAccess<V>::width;
  if constexpr (std::is_same_v<E, T>) {
    return VectorAccess<V>::load(data, count);
  } else if constexpr (width == 1) {
    return load_elements<V>(data);
  } else {
    E padded[width] = {};
    for (int64_t i = 0; i < count; ++i) padded[i] = data[i];
    return load_elements<V>(padded);
  }
}

// A vector whose lane i is lane i + half of v, for i < half.
template <int64_t half, class V>
ITERLAB_FN V upper_lanes(const V& v) {
  using T = typename V::value_type;
#if defined(CPU_CAPABILITY_AVX512)
  if constexpr (std::is_same_v<T, float>) {
    if constexpr (half == 8) return _mm512_shuffle_f32x4(v, v, 0xEE);
    if constexpr (half == 4) return _mm512_shuffle_f32x4(v, v, 0x55);
    if constexpr (half == 2) return _mm512_permute_ps(v, 0xEE);
    return _mm512_permute_ps(v, 0x55);
  } else {
    if constexpr (half == 4) return _mm512_shuffle_f64x2(v, v, 0xEE);
    if constexpr (half == 2) return _mm512_shuffle_f64x2(v, v, 0x55);
    return _mm512_permute_pd(v, 0xFF);
  }
#elif defined(CPU_CAPABILITY_AVX2)
  if constexpr (std::is_same_v<T, float>) {
    if constexpr (half == 4) return _mm256_permute2f128_ps(v, v, 0x11);
    if constexpr (half == 2) return _mm256_permute_ps(v, 0xEE);
    return _mm256_permute_ps(v, 0x55);
  } else {
    if constexpr (half == 2) return _mm256_permute2f128_pd(v, v, 0x11);
    return _mm256_permute_pd(v, 0xF);
  }
#else
  constexpr int64_t width = VectorAccess<V>::width;
  T lanes[2 * width] = {};
  VectorAccess<V>::store(lanes, v);
  return VectorAccess<V>::load(lanes + half);
#endif
}

}  // namespace CPU_CAPABILITY
}  // namespace cpu
}  // namespace iterlab
