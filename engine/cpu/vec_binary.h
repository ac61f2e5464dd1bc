// The mathematics of binary and ternary functors for SIMD vectors, and the functions of two numbers
// that ATen/native/Math.h has.
#pragma once

#include "engine/cpu/vec_elementary.h"
#include "iterlab/math_binary.h"

#include <ATen/native/Math.h>
#include <ATen/native/cpu/LogAddExp.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <type_traits>

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

// SLEEF's gives nan where the quotient overflows or the divisor is tiny; libm's does not. Where the
// result is nan, or a itself, SLEEF's takes up to 70 times as long (also in lanes beyond the end of
// a row): it sees 1 there.
template <class T>
ITERLAB_FN Vec<T> fmod(const Vec<T>& a, const Vec<T>& b) {
  const Vec<T> zero(T(0)), one(T(1)), nan(std::numeric_limits<T>::quiet_NaN());
  const VecMask<T> has_result = both(eq(a - a, zero), both(eq(b, b), ne(b, zero)));
  const VecMask<T> divides = both(has_result, eq(b - b, zero));
  const Vec<T> x = select(divides, a, one), y = select(divides, b, one);
  Vec<T> remainder = x.fmod(y);
  const VecMask<T> lost = isnan(remainder);
  if (as_value<Vec<T>>(lost).zero_mask() != (1 << Vec<T>::size()) - 1) {
    const Vec<T> found = by_lane(x, y, [](T one_x, T one_y) { return std::fmod(one_x, one_y); });
    remainder = select(lost, found, remainder);
  }
  return select(divides, remainder, select(has_result, a, nan));
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
  return a.abs() | (b & Vec<T>(T(-0.0)));
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

// x * 2^power of whole powers, rounded once. AVX-512 has an instruction for it.
#if defined(CPU_CAPABILITY_AVX512)
ITERLAB_FN Vec<float> scale_by_whole_power(const Vec<float>& x, const Vec<float>& power) {
  return _mm512_scalef_ps(x, power);
}
ITERLAB_FN Vec<double> scale_by_whole_power(const Vec<double>& x, const Vec<double>& power) {
  return _mm512_scalef_pd(x, power);
}
#else
// By powers that are numbers. On the way down to subnormal numbers the last one is so small that of
// a product which was rounded before it nothing is left (musl's scalbn).
template <class T>
ITERLAB_FN T scaled_by_steps(T x, T power) {
  using Bits = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;
  using Limits = std::numeric_limits<T>;
  constexpr Bits kLargest = Limits::max_exponent - 1, kSmallest = Limits::min_exponent - 1;
  constexpr T kBeyond = T(3 * kLargest);  // where nothing is left of any number
  const auto power_of_two = [](Bits exponent) {
    return std::bit_cast<T>((exponent + kLargest) << (Limits::digits - 1));
  };
  Bits left = static_cast<Bits>(std::max(-kBeyond, std::min(power, kBeyond)));
  for (int step = 0; step < 2; ++step) {
    const Bits part = left > kLargest    ? kLargest
                      : left < kSmallest ? kSmallest + Limits::digits
                                         : Bits{0};
    x *= power_of_two(part);
    left -= part;
  }
  return x * power_of_two(std::max(kSmallest, std::min(left, kLargest)));
}
template <class T>
ITERLAB_FN Vec<T> scale_by_whole_power(const Vec<T>& x, const Vec<T>& power) {
  return by_lane(x, power, scaled_by_steps<T>);
}
#endif
template <class T>
ITERLAB_FN Vec<T> scale_by_power_of_two(const Vec<T>& x, const Vec<T>& exponent) {
  const VecMask<T> finite = eq(exponent - exponent, Vec<T>(T(0)));
  const VecMask<T> whole = both(eq(exponent, trunc(exponent)), finite);
  return select_or_compute(whole, scale_by_whole_power(x, exponent),
                           [&] { return x * pow(Vec<T>(T(2)), exponent); });
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
