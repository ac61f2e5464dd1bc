// Elementary functions of functors for scalars: powers, logarithms, trigonometry, rounding, signs,
// parts of complex numbers. engine/cpu/vec_elementary.h has the same names for SIMD vectors.
#pragma once

#include "iterlab/math.h"

#include <cmath>
#include <limits>
#include <numbers>

namespace iterlab::math {

// std::name for real numbers. For complex ones, the function that stands beside c10::complex: this
// header leaves it to the backend to include that.
#define ITERLAB_ELEMENTARY(name)          \
  template <class T>                      \
  ITERLAB_FN Lane<T> name(Lane<T> x) {    \
    using std::name;                      \
    return static_cast<T>(name(x.value)); \
  }
ITERLAB_ELEMENTARY(exp)
ITERLAB_ELEMENTARY(expm1)
ITERLAB_ELEMENTARY(log)
ITERLAB_ELEMENTARY(log10)
ITERLAB_ELEMENTARY(log1p)
ITERLAB_ELEMENTARY(sqrt)
ITERLAB_ELEMENTARY(sin)
ITERLAB_ELEMENTARY(cos)
ITERLAB_ELEMENTARY(tan)
ITERLAB_ELEMENTARY(asin)
ITERLAB_ELEMENTARY(acos)
ITERLAB_ELEMENTARY(atan)
ITERLAB_ELEMENTARY(sinh)
ITERLAB_ELEMENTARY(cosh)
ITERLAB_ELEMENTARY(tanh)
ITERLAB_ELEMENTARY(asinh)
ITERLAB_ELEMENTARY(acosh)
ITERLAB_ELEMENTARY(atanh)
ITERLAB_ELEMENTARY(erf)
ITERLAB_ELEMENTARY(erfc)
ITERLAB_ELEMENTARY(lgamma)
#undef ITERLAB_ELEMENTARY

// Integers are whole already.
#define ITERLAB_ROUNDING(name, function)   \
  template <class T>                       \
  ITERLAB_FN Lane<T> name(Lane<T> x) {     \
    if constexpr (std::is_integral_v<T>) { \
      return x;                            \
    } else {                               \
      return std::function(x.value);       \
    }                                      \
  }
ITERLAB_ROUNDING(ceil, ceil)
ITERLAB_ROUNDING(floor, floor)
ITERLAB_ROUNDING(trunc, trunc)
ITERLAB_ROUNDING(round, nearbyint)  // half to even
#undef ITERLAB_ROUNDING

// To base 2, complex numbers are scaled in each part, as in ATen: infinities stay in theirs.
template <class T>
ITERLAB_FN Lane<T> exp2(Lane<T> x) {
  if constexpr (is_complex_v<T>) {
    using Real = typename T::value_type;
    return exp(Lane<T>(x.value * static_cast<Real>(std::numbers::ln2)));
  } else {
    return std::exp2(x.value);
  }
}
template <class T>
ITERLAB_FN Lane<T> log2(Lane<T> x) {
  if constexpr (is_complex_v<T>) {
    using Real = typename T::value_type;
    return log(x).value / static_cast<Real>(std::numbers::ln2);
  } else {
    return std::log2(x.value);
  }
}

template <class T>
ITERLAB_FN Lane<T> neg(Lane<T> x) {
  return -x;
}

// The magnitude; of a complex number, as one without an imaginary part.
template <class T>
ITERLAB_FN Lane<T> abs(Lane<T> x) {
  if constexpr (is_complex_v<T>) {
    return T(std::hypot(x.value.real(), x.value.imag()));
  } else if constexpr (std::is_floating_point_v<T>) {
    return std::fabs(x.value);
  } else if constexpr (std::is_signed_v<T>) {
    return x.value < T(0) ? -x : x;
  } else {
    return x;
  }
}

template <class T>
ITERLAB_FN bool signbit(Lane<T> x) {
  if constexpr (std::is_floating_point_v<T>) {
    return std::signbit(x.value);
  } else {
    return x.value < T(0);
  }
}

// Whether a number, or a part of a complex one, is infinite.
template <class T>
ITERLAB_FN bool isinf(Lane<T> x) {
  if constexpr (is_complex_v<T>) {
    using Real = typename T::value_type;
    return isinf(Lane<Real>(x.value.real())) || isinf(Lane<Real>(x.value.imag()));
  } else if constexpr (std::is_floating_point_v<T>) {
    return std::fabs(x.value) == std::numeric_limits<T>::infinity();
  } else {
    return false;
  }
}

template <class T>
ITERLAB_FN Lane<T> conj(Lane<T> x) {
  if constexpr (is_complex_v<T>) {
    return T(x.value.real(), -x.value.imag());
  } else {
    return x;
  }
}

// x / |x|, and 0 for 0, of a complex number.
template <class T>
ITERLAB_FN Lane<T> direction(Lane<T> x) {
  const auto magnitude = std::hypot(x.value.real(), x.value.imag());
  return magnitude == 0 ? T(0) : x.value / magnitude;
}

// The angle to the positive real axis, of a complex number, as one without an imaginary part.
template <class T>
ITERLAB_FN Lane<T> phase(Lane<T> x) {
  return T(std::atan2(x.value.imag(), x.value.real()));
}

// The parts of a complex number, as lanes of their own.
template <class T>
ITERLAB_FN auto real_part(Lane<T> x) {
  return Lane<typename T::value_type>(x.value.real());
}
template <class T>
ITERLAB_FN auto imag_part(Lane<T> x) {
  return Lane<typename T::value_type>(x.value.imag());
}
template <class V, class T>
ITERLAB_FN V from_parts(Lane<T> real, Lane<T> imag) {
  return scalar_of<V>(real.value, imag.value);
}

}  // namespace iterlab::math
