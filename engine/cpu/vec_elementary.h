// Elementary functions of functors for SIMD vectors: PyTorch's vector classes, which call SLEEF.
// Complex vectors have few of them, and map a scalar function over their lanes for the rest;
// operators made of those run over lanes (complex_simd = false).
#pragma once

#include "engine/cpu/vec_math.h"
#include "iterlab/math_elementary.h"
#include "iterlab/math_special.h"

namespace iterlab::math {

#define ITERLAB_VEC(name)                   \
  template <class T>                        \
  ITERLAB_FN Vec<T> name(const Vec<T>& x) { \
    return x.name();                        \
  }
ITERLAB_VEC(exp)
ITERLAB_VEC(exp2)
ITERLAB_VEC(expm1)
ITERLAB_VEC(log)
ITERLAB_VEC(log2)
ITERLAB_VEC(log10)
ITERLAB_VEC(log1p)
ITERLAB_VEC(asin)
ITERLAB_VEC(acos)
ITERLAB_VEC(atan)
ITERLAB_VEC(sinh)
ITERLAB_VEC(cosh)
ITERLAB_VEC(tanh)
ITERLAB_VEC(atanh)
ITERLAB_VEC(erf)
ITERLAB_VEC(erfc)
ITERLAB_VEC(lgamma)
ITERLAB_VEC(ceil)
ITERLAB_VEC(floor)
ITERLAB_VEC(trunc)
ITERLAB_VEC(round)
ITERLAB_VEC(neg)
ITERLAB_VEC(abs)
ITERLAB_VEC(conj)
#undef ITERLAB_VEC

// Note [Ranges of trigonometric functions]
// SLEEF reduces an angle by a method that its size asks for, but chooses the method for a vector as
// a whole: an element's last digit would depend on its neighbours. So each range is computed apart,
// with the lanes of the others set to a number of this range. Nearly always one range is all.
template <class T>
struct AngleRanges;
template <>
struct AngleRanges<float> {  // TRIGRANGEMAX2f and TRIGRANGEMAXf of SLEEF's misc.h
  static constexpr float near = 125.0f, far = 39000.0f;
};
template <>
struct AngleRanges<double> {  // TRIGRANGEMAX2 and TRIGRANGEMAX
  static constexpr double near = 15.0, far = 1e14;
};

template <class T, class Fn>
ITERLAB_FN Vec<T> by_range(const Vec<T>& x, Fn function) {
  const Vec<T> near(AngleRanges<T>::near), far(AngleRanges<T>::far), zero(T(0));
  const Vec<T> magnitude = x.abs();
  const VecMask<T> is_near = lt(magnitude, near);
  if (all(is_near)) return function(x);
  const VecMask<T> is_far = negated(lt(magnitude, far));  // nan is too
  const VecMask<T> is_near_or_far = either(is_near, is_far);
  const Vec<T> middle = function(select(is_near_or_far, near, x));
  const Vec<T> result = select(is_near, function(select(is_near, x, zero)), middle);
  return select(is_far, function(select(is_far, x, far)), result);
}

template <class T>
ITERLAB_FN Vec<T> sin(const Vec<T>& x) {
  return by_range(x, [](const Vec<T>& angle) { return angle.sin(); });
}
template <class T>
ITERLAB_FN Vec<T> cos(const Vec<T>& x) {
  return by_range(x, [](const Vec<T>& angle) { return angle.cos(); });
}
template <class T>
ITERLAB_FN Vec<T> tan(const Vec<T>& x) {
  return by_range(x, [](const Vec<T>& angle) { return angle.tan(); });
}

// Note [Square roots]
// Correctly rounded, as IEEE 754 asks. AVX-512's instructions take 19 cycles for 16 floats and 31
// for 8 doubles; its estimate of 1 / sqrt(x), with Newton's and a last correction (Markstein,
// "IA-64 and Elementary Functions", 2000), a third of that. Small numbers, whose remainder would be
// subnormal, and those without a root are left to the instruction: the bits are the same.
#if defined(CPU_CAPABILITY_AVX512)
template <int steps, class T>
ITERLAB_FN Vec<T> root_from_estimate(const Vec<T>& x, const Vec<T>& estimate) {
  const Vec<T> half(T(0.5));
  Vec<T> root = x * estimate, half_inverse = half * estimate;
  for (int step = 0; step < steps; ++step) {
    const Vec<T> error = at::vec::fnmadd(root, half_inverse, half);
    root = at::vec::fmadd(root, error, root);
    half_inverse = at::vec::fmadd(half_inverse, error, half_inverse);
  }
  return at::vec::fmadd(at::vec::fnmadd(root, root, x), half_inverse, root);
}
ITERLAB_FN Vec<float> sqrt(const Vec<float>& x) {
  const __mmask16 usual =
      _mm512_cmp_ps_mask(x, _mm512_set1_ps(0x1p-90f), _CMP_GE_OQ) &
      _mm512_cmp_ps_mask(x, _mm512_set1_ps(std::numeric_limits<float>::max()), _CMP_LE_OQ);
  if (usual != 0xFFFF) return _mm512_sqrt_ps(x);
  return root_from_estimate<1>(x, Vec<float>(_mm512_rsqrt14_ps(x)));
}
ITERLAB_FN Vec<double> sqrt(const Vec<double>& x) {
  const __mmask8 usual =
      _mm512_cmp_pd_mask(x, _mm512_set1_pd(0x1p-900), _CMP_GE_OQ) &
      _mm512_cmp_pd_mask(x, _mm512_set1_pd(std::numeric_limits<double>::max()), _CMP_LE_OQ);
  if (usual != 0xFF) return _mm512_sqrt_pd(x);
  return root_from_estimate<2>(x, Vec<double>(_mm512_rsqrt14_pd(x)));
}
#endif
template <class T>
ITERLAB_FN Vec<T> sqrt(const Vec<T>& x) {
  return x.sqrt();
}

// at::vec's erf of float is a polynomial with an absolute error of 1e-7, of which little is left
// of a small result; SLEEF's has 1 ulp.
#if defined(CPU_CAPABILITY_AVX512)
ITERLAB_FN Vec<float> erf(const Vec<float>& x) { return Sleef_erff16_u10(x); }
#elif defined(CPU_CAPABILITY_AVX2)
ITERLAB_FN Vec<float> erf(const Vec<float>& x) { return Sleef_erff8_u10(x); }
#endif

// 1 / x of numbers in [1, 1e30]: the hardware's, and a step of Newton's. A division of 16 floats
// takes as long as ten other instructions.
#if defined(CPU_CAPABILITY_AVX512)
ITERLAB_FN Vec<float> fast_reciprocal(const Vec<float>& x) {
  const Vec<float> guess = _mm512_maskz_rcp14_ps(0xFFFF, x);
  return at::vec::fmadd(guess, at::vec::fnmadd(x, guess, Vec<float>(1.0f)), guess);
}
#elif defined(CPU_CAPABILITY_AVX2)
ITERLAB_FN Vec<float> fast_reciprocal(const Vec<float>& x) {
  const Vec<float> guess = _mm256_rcp_ps(x);
  return at::vec::fmadd(guess, at::vec::fnmadd(x, guess, Vec<float>(1.0f)), guess);
}
#else
ITERLAB_FN Vec<float> fast_reciprocal(const Vec<float>& x) { return Vec<float>(1.0f) / x; }
#endif

template <class T>
ITERLAB_FN Vec<T> normal_cdf(const Vec<T>& x) {
  return Vec<T>(T(0.5)) * (Vec<T>(T(1)) + erf(x * Vec<T>(static_cast<T>(std::numbers::sqrt2 / 2))));
}
// From where the tail is zero in float, it is as beyond. The rounding of x^2 is made good.
template <>
ITERLAB_FN Vec<float> normal_cdf<float>(const Vec<float>& x) {
  using Tail = special::NormalTail;
  const Vec<float> one(1.0f), half(-0.5f);
  const Vec<float> magnitude = at::vec::clamp_max(x.abs(), Vec<float>(20.0f));
  const Vec<float> t = fast_reciprocal(at::vec::fmadd(magnitude, Vec<float>(Tail::kSlope), one));
  const Vec<float> square = magnitude * magnitude,
                   rounding = at::vec::fmsub(magnitude, magnitude, square);
  const Vec<float> power = (square * half).exp_u20();
  Vec<float> tail(Tail::k8);
  for (float k : {Tail::k7, Tail::k6, Tail::k5, Tail::k4, Tail::k3, Tail::k2, Tail::k1})
    tail = at::vec::fmadd(tail, t, Vec<float>(k));
  tail = tail * (t * at::vec::fmadd(power, rounding * half, power));
  return select(lt(x, Vec<float>(0.0f)), tail, one - tail);
}

// SLEEF's asinh and acosh overflow beyond the square root of the largest number. Where |x| is
// large, both are log(2 |x|), to all digits.
inline constexpr double kLargeInHyperbolic = 1e10;

template <class T>
ITERLAB_FN Vec<T> log_of_twice(const Vec<T>& x) {
  return x.log() + Vec<T>(static_cast<T>(std::numbers::ln2));
}
template <class T>
ITERLAB_FN Vec<T> asinh(const Vec<T>& x) {
  const Vec<T> magnitude = x.abs();
  const VecMask<T> large = gt(magnitude, Vec<T>(static_cast<T>(kLargeInHyperbolic)));
  if (all(negated(large))) return x.asinh();
  return select(large, log_of_twice(magnitude).copysign(x), x.asinh());
}
template <class T>
ITERLAB_FN Vec<T> acosh(const Vec<T>& x) {
  const VecMask<T> large = gt(x, Vec<T>(static_cast<T>(kLargeInHyperbolic)));
  if (all(negated(large))) return x.acosh();
  return select(large, log_of_twice(x), x.acosh());
}

// Of complex vectors.
template <class T>
ITERLAB_FN Vec<T> direction(const Vec<T>& x) {
  return x.sgn();
}
template <class T>
ITERLAB_FN Vec<T> phase(const Vec<T>& x) {
  return x.angle();
}

template <class T>
ITERLAB_FN VecMask<T> signbit(const Vec<T>& x) {
  return lt(Vec<T>(T(1)).copysign(x), Vec<T>(T(0)));
}
template <class T>
ITERLAB_FN VecMask<T> isinf(const Vec<T>& x) {
  return eq(x.abs(), Vec<T>(std::numeric_limits<T>::infinity()));
}

}  // namespace iterlab::math
