// The mathematics of reduction formulas for scalars; engine/cpu/reduce_vec.h has the same names for
// SIMD vectors.
#pragma once

#include "iterlab/lane.h"

#include <cmath>
#include <limits>

namespace iterlab::reducing {

// The value that loses against every other: -inf, or the lowest integer.
template <class T>
constexpr T lowest() {
  if constexpr (std::numeric_limits<T>::has_infinity) return -std::numeric_limits<T>::infinity();
  return std::numeric_limits<T>::lowest();
}
template <class T>
constexpr T highest() {
  if constexpr (std::numeric_limits<T>::has_infinity) return std::numeric_limits<T>::infinity();
  return std::numeric_limits<T>::max();
}

// V with one number in every lane.
template <class V>
ITERLAB_FN V filled(double number) {
  using T = typename V::value_type;
  if constexpr (is_complex_v<T>) {
    return V(T(static_cast<typename T::value_type>(number)));
  } else {
    return V(static_cast<T>(number));
  }
}

template <class T>
ITERLAB_FN bool is_nan(T x) {
  if constexpr (std::is_floating_point_v<T>) {
    return x != x;
  } else {
    return false;
  }
}

// NaN wins; of equals, the first. Of complex numbers without imaginary parts, as their real parts.
template <class T>
ITERLAB_FN Lane<T> maximum(Lane<T> a, Lane<T> b) {
  if constexpr (is_complex_v<T>) {
    using Real = typename T::value_type;
    return T(maximum(Lane<Real>(a.value.real()), Lane<Real>(b.value.real())).value);
  } else {
    const T x = a.value, y = b.value;
    return y > x || is_nan(y) ? y : x;
  }
}
template <class T>
ITERLAB_FN Lane<T> minimum(Lane<T> a, Lane<T> b) {
  const T x = a.value, y = b.value;
  return y < x || is_nan(y) ? y : x;
}

template <class T>
ITERLAB_FN Lane<T> minus(Lane<T> a, Lane<T> b) {
  return a.value - b.value;
}
template <class T>
ITERLAB_FN Lane<T> divide(Lane<T> a, Lane<T> b) {
  return a.value / b.value;
}

// The square of a distance: x * x, and x * conj(x) for complex numbers.
template <class T>
ITERLAB_FN Lane<T> square(Lane<T> x) {
  if constexpr (is_complex_v<T>) {
    return T(x.value.real() * x.value.real() + x.value.imag() * x.value.imag());
  } else {
    return x.value * x.value;
  }
}
// a * b + c; for moments of complex numbers, the real part of a * conj(b), and c.
template <class T>
ITERLAB_FN Lane<T> fma(Lane<T> a, Lane<T> b, Lane<T> c) {
  if constexpr (is_complex_v<T>) {
    return T(a.value.real() * b.value.real() + a.value.imag() * b.value.imag()) + c.value;
  } else {
    return a.value * b.value + c.value;
  }
}

// Of a complex number without imaginary part, as its real part.
template <class T>
ITERLAB_FN Lane<T> fast_exp(Lane<T> x) {
  if constexpr (is_complex_v<T>) {
    return T(std::exp(x.value.real()));
  } else {
    return std::exp(x.value);
  }
}
template <class T>
ITERLAB_FN Lane<T> log(Lane<T> x) {
  if constexpr (is_complex_v<T>) {
    const auto real = x.value.real(), imag = x.value.imag();
    return T(std::log(std::hypot(real, imag)), std::atan2(imag, real));
  } else {
    return std::log(x.value);
  }
}
template <class T>
ITERLAB_FN Lane<T> abs(Lane<T> x) {
  if constexpr (is_complex_v<T>) {
    return T(std::hypot(x.value.real(), x.value.imag()));
  } else {
    return std::abs(x.value);
  }
}
// Of a complex number x: its real part, and exp(x - real(x)), on the unit circle; 1 where the real
// part is -inf, as exp(x) is no number with a direction there.
template <class T>
ITERLAB_FN Lane<T> real(Lane<T> x) {
  return T(x.value.real());
}
template <class T>
ITERLAB_FN Lane<T> turn(Lane<T> x) {
  using Real = typename T::value_type;
  if (x.value.real() == -std::numeric_limits<Real>::infinity()) return T(1);
  return T(std::cos(x.value.imag()), std::sin(x.value.imag()));
}
// Of a complex number without imaginary part (a variance).
template <class T>
ITERLAB_FN Lane<T> sqrt(Lane<T> x) {
  if constexpr (is_complex_v<T>) {
    return T(std::sqrt(x.value.real()));
  } else {
    return std::sqrt(x.value);
  }
}
template <class T>
ITERLAB_FN Lane<T> pow(Lane<T> x, Lane<T> exponent) {
  return std::pow(x.value, exponent.value);
}

// 1 where x is not zero, else 0.
template <class T>
ITERLAB_FN Lane<T> is_nonzero(Lane<T> x) {
  return T(x.value != T(0));
}
template <class T>
ITERLAB_FN Lane<T> is_number(Lane<T> x) {  // 0 for NaN
  return T(x.value == x.value);
}
// x, and 0 for NaN.
template <class T>
ITERLAB_FN Lane<T> zero_if_nan(Lane<T> x) {
  return x.value == x.value ? x.value : T(0);
}
// x * weight, and 0 where the weight is 0, whatever x is.
template <class T>
ITERLAB_FN Lane<T> weighted(Lane<T> x, Lane<T> weight) {
  return weight.value == T(0) ? Lane<T>(T(0)) : x * weight;
}
// Whether a <= b in all lanes, and x where a <= b, else otherwise; NaN is not at most anything.
template <class T>
ITERLAB_FN bool all_at_most(Lane<T> a, Lane<T> b) {
  if constexpr (is_complex_v<T>) {
    return a.value.real() <= b.value.real();
  } else {
    return a.value <= b.value;
  }
}
template <class T>
ITERLAB_FN Lane<T> select_at_most(Lane<T> a, Lane<T> b, Lane<T> x, Lane<T> otherwise) {
  return all_at_most(a, b) ? x : otherwise;
}
// a - b, and 0 where they are equal, infinities too.
template <class T>
ITERLAB_FN Lane<T> distance(Lane<T> a, Lane<T> b) {
  return a.value == b.value ? T(0) : a.value - b.value;
}

}  // namespace iterlab::reducing
