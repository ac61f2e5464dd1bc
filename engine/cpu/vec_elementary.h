// Elementary functions of functors for SIMD vectors: PyTorch's vector classes, which call SLEEF.
// Complex vectors have few of them, and map a scalar function over their lanes for the rest;
// operators made of those run over lanes (complex_simd = false).
#pragma once

#include "engine/cpu/vec_math.h"
#include "iterlab/math_elementary.h"

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
ITERLAB_VEC(sqrt)
ITERLAB_VEC(sin)
ITERLAB_VEC(cos)
ITERLAB_VEC(tan)
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

// at::vec's erf of float is a polynomial with an absolute error of 1e-7, of which little is left
// of a small result; SLEEF's has 1 ulp.
#if defined(CPU_CAPABILITY_AVX512)
ITERLAB_FN Vec<float> erf(const Vec<float>& x) { return Sleef_erff16_u10(x); }
#elif defined(CPU_CAPABILITY_AVX2)
ITERLAB_FN Vec<float> erf(const Vec<float>& x) { return Sleef_erff8_u10(x); }
#endif

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
  return select(large, log_of_twice(magnitude).copysign(x), x.asinh());
}
template <class T>
ITERLAB_FN Vec<T> acosh(const Vec<T>& x) {
  const VecMask<T> large = gt(x, Vec<T>(static_cast<T>(kLargeInHyperbolic)));
  return select(large, log_of_twice(x), x.acosh());
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
