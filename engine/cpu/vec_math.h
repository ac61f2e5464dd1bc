// The mathematics of functors for SIMD vectors: PyTorch's own vector classes, which carry SLEEF's
// numerics.
#pragma once

#include "iterlab/math.h"

#include <ATen/cpu/vec/functional.h>

#include <cstdint>

namespace iterlab {

// The SIMD vector of a compute type, or Lane<T> where plain loops serve as well: every compiler
// vectorises integers. at::vec has complex vectors from AVX2 on.
#if defined(CPU_CAPABILITY_DEFAULT)
template <class T>
inline constexpr bool has_vector = std::is_floating_point_v<T>;
#else
template <class T>
inline constexpr bool has_vector = std::is_floating_point_v<T> || is_complex_v<T>;
#endif

template <class T>
using Vector = std::conditional_t<has_vector<T>, at::vec::Vectorized<T>, Lane<T>>;

namespace math {

template <class T>
using Vec = at::vec::Vectorized<T>;

// A 16-bit floating point number as it is stored, for operators that change nothing but signs.
struct StoredHalf {
  uint16_t bits;
};
inline constexpr uint16_t kHalfSign = 0x8000;
ITERLAB_FN StoredHalf abs(StoredHalf x) { return {static_cast<uint16_t>(x.bits & ~kHalfSign)}; }
ITERLAB_FN StoredHalf neg(StoredHalf x) { return {static_cast<uint16_t>(x.bits ^ kHalfSign)}; }
ITERLAB_FN StoredHalf conj(StoredHalf x) { return x; }
ITERLAB_FN StoredHalf copysign(StoredHalf magnitude, StoredHalf sign) {
  return {static_cast<uint16_t>(abs(magnitude).bits | (sign.bits & kHalfSign))};
}

// A mask is as wide as the vector that it came from, but of a type of its own: it is not a number.
// Of complex vectors, which have no order and no blend, it holds 1 or 0 for each number.
template <class T>
struct VecMask {
  Vec<T> lanes;
};

template <class T>
ITERLAB_FN VecMask<T> eq(const Vec<T>& a, const Vec<T>& b) {
  if constexpr (is_complex_v<T>) {
    return {a.eq(b)};
  } else {
    return {a == b};
  }
}
template <class T>
ITERLAB_FN VecMask<T> ne(const Vec<T>& a, const Vec<T>& b) {
  if constexpr (is_complex_v<T>) {
    return {a.ne(b)};
  } else {
    return {a != b};
  }
}
template <class T>
ITERLAB_FN VecMask<T> lt(const Vec<T>& a, const Vec<T>& b) {
  return {a < b};
}
template <class T>
ITERLAB_FN VecMask<T> le(const Vec<T>& a, const Vec<T>& b) {
  return {a <= b};
}
template <class T>
ITERLAB_FN VecMask<T> gt(const Vec<T>& a, const Vec<T>& b) {
  return {a > b};
}
template <class T>
ITERLAB_FN VecMask<T> ge(const Vec<T>& a, const Vec<T>& b) {
  return {a >= b};
}
template <class T>
ITERLAB_FN VecMask<T> both(const VecMask<T>& a, const VecMask<T>& b) {
  return {a.lanes & b.lanes};
}
template <class T>
ITERLAB_FN VecMask<T> either(const VecMask<T>& a, const VecMask<T>& b) {
  return {a.lanes | b.lanes};
}
template <class T>
ITERLAB_FN VecMask<T> differ(const VecMask<T>& a, const VecMask<T>& b) {
  return {a.lanes ^ b.lanes};
}
template <class T>
ITERLAB_FN bool all(const VecMask<T>& mask) {
  return mask.lanes.zero_mask() == 0;
}
template <class T>
ITERLAB_FN Vec<T> select(const VecMask<T>& condition, const Vec<T>& if_true,
                         const Vec<T>& if_false) {
  return Vec<T>::blendv(if_false, if_true, condition.lanes);
}

// AVX-512 has registers for masks. at::vec makes a vector of each, and a mask of that again.
#if defined(CPU_CAPABILITY_AVX512)
template <>
struct VecMask<float> {
  __mmask16 bits;
};
template <>
struct VecMask<double> {
  __mmask8 bits;
};
#define ITERLAB_COMPARE(name, predicate)                                        \
  ITERLAB_FN VecMask<float> name(const Vec<float>& a, const Vec<float>& b) {    \
    return {_mm512_cmp_ps_mask(a, b, predicate)};                               \
  }                                                                             \
  ITERLAB_FN VecMask<double> name(const Vec<double>& a, const Vec<double>& b) { \
    return {_mm512_cmp_pd_mask(a, b, predicate)};                               \
  }
ITERLAB_COMPARE(eq, _CMP_EQ_OQ)
ITERLAB_COMPARE(ne, _CMP_NEQ_UQ)
ITERLAB_COMPARE(lt, _CMP_LT_OQ)
ITERLAB_COMPARE(le, _CMP_LE_OQ)
ITERLAB_COMPARE(gt, _CMP_GT_OQ)
ITERLAB_COMPARE(ge, _CMP_GE_OQ)
#undef ITERLAB_COMPARE
#define ITERLAB_OF_MASKS(name, operation)                                               \
  ITERLAB_FN VecMask<float> name(const VecMask<float>& a, const VecMask<float>& b) {    \
    return {static_cast<__mmask16>(a.bits operation b.bits)};                           \
  }                                                                                     \
  ITERLAB_FN VecMask<double> name(const VecMask<double>& a, const VecMask<double>& b) { \
    return {static_cast<__mmask8>(a.bits operation b.bits)};                            \
  }
ITERLAB_OF_MASKS(both, &)
ITERLAB_OF_MASKS(either, |)
ITERLAB_OF_MASKS(differ, ^)
#undef ITERLAB_OF_MASKS
ITERLAB_FN VecMask<float> negated(const VecMask<float>& a) {
  return {static_cast<__mmask16>(~a.bits)};
}
ITERLAB_FN VecMask<double> negated(const VecMask<double>& a) {
  return {static_cast<__mmask8>(~a.bits)};
}
ITERLAB_FN bool all(const VecMask<float>& mask) { return mask.bits == 0xFFFF; }
ITERLAB_FN bool all(const VecMask<double>& mask) { return mask.bits == 0xFF; }
ITERLAB_FN Vec<float> select(const VecMask<float>& condition, const Vec<float>& if_true,
                             const Vec<float>& if_false) {
  return _mm512_mask_blend_ps(condition.bits, if_false, if_true);
}
ITERLAB_FN Vec<double> select(const VecMask<double>& condition, const Vec<double>& if_true,
                              const Vec<double>& if_false) {
  return _mm512_mask_blend_pd(condition.bits, if_false, if_true);
}
#endif

// The choices differ from one vector to the next in their time, in no result.
template <class T, class Fn>
ITERLAB_FN Vec<T> select_or_compute(const VecMask<T>& condition, const Vec<T>& if_true,
                                    Fn if_false) {
  return all(condition) ? if_true : select(condition, if_true, if_false());
}

// Complex vectors are vectors of their parts.
#if !defined(CPU_CAPABILITY_DEFAULT)
template <class Real>
ITERLAB_FN Vec<Real> parts_of(const Vec<complex<Real>>& x) {
  return Vec<Real>(x);
}
#if defined(CPU_CAPABILITY_AVX512)
ITERLAB_FN Vec<float> real_in_both(const Vec<complex<float>>& x) { return _mm512_moveldup_ps(x); }
ITERLAB_FN Vec<double> real_in_both(const Vec<complex<double>>& x) { return _mm512_movedup_pd(x); }
#else
ITERLAB_FN Vec<float> real_in_both(const Vec<complex<float>>& x) { return _mm256_moveldup_ps(x); }
ITERLAB_FN Vec<double> real_in_both(const Vec<complex<double>>& x) { return _mm256_movedup_pd(x); }
#endif
template <class Real>
ITERLAB_FN Vec<complex<Real>> select(const VecMask<complex<Real>>& condition,
                                     const Vec<complex<Real>>& if_true,
                                     const Vec<complex<Real>>& if_false) {
  const VecMask<Real> in_both = ne(real_in_both(condition.lanes), Vec<Real>(Real(0)));
  return Vec<complex<Real>>(select(in_both, parts_of(if_true), parts_of(if_false)));
}
template <class Real>
ITERLAB_FN VecMask<complex<Real>> magnitude_below(const Vec<complex<Real>>& x, double limit) {
  const Vec<Real> square_of_both(x.abs_2_());
  const VecMask<Real> below = lt(square_of_both, Vec<Real>(static_cast<Real>(limit * limit)));
  const Vec<Real> one = parts_of(Vec<complex<Real>>(complex<Real>(1)));
  return {Vec<complex<Real>>(select(below, one, Vec<Real>(Real(0))))};
}
#endif

template <class T>
ITERLAB_FN VecMask<T> is_true(const Vec<T>& x) {
  return ne(x, Vec<T>(T(0)));
}
template <class T>
ITERLAB_FN VecMask<T> isnan(const Vec<T>& x) {
  return ne(x, x);
}

template <class V, class T>
ITERLAB_FN V as_value(const VecMask<T>& mask) {
  if constexpr (is_complex_v<T>) {
    return mask.lanes;
  } else {
    return select(mask, V(T(1)), V(T(0)));
  }
}

template <class T>
ITERLAB_FN VecMask<T> negated(const VecMask<T>& a) {
  return eq(as_value<Vec<T>>(a), Vec<T>(T(0)));
}

template <class T>
ITERLAB_FN Vec<T> fma(const Vec<T>& a, const Vec<T>& b, const Vec<T>& c) {
  return at::vec::fmadd(a, b, c);
}

}  // namespace math
}  // namespace iterlab
