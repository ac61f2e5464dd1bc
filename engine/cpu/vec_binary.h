// The mathematics of binary and ternary functors for SIMD vectors, and the functions of two numbers
// that ATen/native/Math.h has.
#pragma once

#include "engine/cpu/vec_elementary.h"
#include "iterlab/math_binary.h"

#include <ATen/native/Math.h>
#include <ATen/native/cpu/LogAddExp.h>

namespace iterlab {

namespace special {
template <class T>
T zeta(T x, T q) {
  return ::zeta<T>(x, q);
}
template <class T>
T igamma(T a, T x) {
  return ::calc_igamma<T>(a, x);
}
template <class T>
T igammac(T a, T x) {
  return ::calc_igammac<T>(a, x);
}
template <class T>
T logaddexp(T x, T y) {
  return at::native::_log_add_exp_helper(x, y);
}
}  // namespace special

namespace math {

// Applies a function of two numbers lane by lane.
template <class T, class Fn>
ITERLAB_FN Vec<T> by_lane(const Vec<T>& a, const Vec<T>& b, Fn fn) {
  alignas(64) T left[Vec<T>::size()], right[Vec<T>::size()];
  a.store(left);
  b.store(right);
  for (int i = 0; i < Vec<T>::size(); ++i) left[i] = fn(left[i], right[i]);
  return Vec<T>::loadu(left);
}

template <class T>
ITERLAB_FN VecMask<T> magnitude_below(const Vec<T>& x, double limit) {
  return lt(abs(x), Vec<T>(static_cast<T>(limit)));
}

// SLEEF's gives nan where the quotient overflows or the divisor is tiny; libm's does not.
template <class T>
ITERLAB_FN Vec<T> fmod(const Vec<T>& a, const Vec<T>& b) {
  const Vec<T> remainder = a.fmod(b), zero(T(0));
  const VecMask<T> numbers = both(eq(a - a, zero), both(eq(b, b), ne(b, zero)));
  const VecMask<T> lost = both(isnan(remainder), numbers);
  if (as_value<Vec<T>>(lost).zero_mask() == (1 << Vec<T>::size()) - 1) return remainder;
  return select(lost, by_lane(a, b, [](T x, T y) { return std::fmod(x, y); }), remainder);
}
template <class T>
ITERLAB_FN Vec<T> atan2(const Vec<T>& a, const Vec<T>& b) {
  return a.atan2(b);
}
template <class T>
ITERLAB_FN Vec<T> hypot(const Vec<T>& a, const Vec<T>& b) {
  return a.hypot(b);
}
template <class T>
ITERLAB_FN Vec<T> copysign(const Vec<T>& a, const Vec<T>& b) {
  return a.copysign(b);
}
template <class T>
ITERLAB_FN Vec<T> nextafter(const Vec<T>& a, const Vec<T>& b) {
  return a.nextafter(b);
}
template <class T>
ITERLAB_FN Vec<T> maximum(const Vec<T>& a, const Vec<T>& b) {
  return at::vec::maximum(a, b);
}
template <class T>
ITERLAB_FN Vec<T> minimum(const Vec<T>& a, const Vec<T>& b) {
  return at::vec::minimum(a, b);
}
template <class T>
ITERLAB_FN Vec<T> pow(const Vec<T>& a, const Vec<T>& b) {
  return a.pow(b);
}
template <class T>
ITERLAB_FN Vec<T> logaddexp(const Vec<T>& a, const Vec<T>& b) {
  return by_lane(a, b, special::logaddexp<T>);
}
template <class Narrow>
ITERLAB_FN Vec<float> nextafter_narrow(const Vec<float>& from, const Vec<float>& to) {
  return by_lane(from, to, next_narrow<Narrow>);
}

}  // namespace math
}  // namespace iterlab
