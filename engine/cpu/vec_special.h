// The special functions of one number on the CPU: ATen/native/Math.h's. Note [Special functions]
#pragma once

#include "engine/cpu/vec_elementary.h"
#include "iterlab/math_special.h"

#include <ATen/native/Math.h>

#include <cstddef>
#include <tuple>

namespace iterlab::special {

template <class T>
T erfinv(T x) {
  return ::calc_erfinv(x);
}
template <class T>
T digamma(T x) {
  return ::calc_digamma(x);
}
template <class T>
T trigamma(T x) {
  return ::trigamma(x);
}
template <class T>
T polygamma(T x, int n) {
  return ::calc_polygamma(x, n);
}
template <class T>
T i0(T x) {
  return ::calc_i0(x);
}
template <class T>
T i0e(T x) {
  return ::calc_i0e(x);
}
template <class T>
T i1(T x) {
  return ::calc_i1(x);
}
template <class T>
T i1e(T x) {
  return ::calc_i1e(x);
}
template <class T>
T erfcx(T x) {
  return ::calc_erfcx(x);
}
template <class T>
T ndtri(T x) {
  return ::calc_ndtri(x);
}
template <class T>
T log_ndtr(T x) {
  return ::calc_log_ndtr(x);
}

}  // namespace iterlab::special

// Bessel functions of vectors: ATen's formulas and coefficients (Cephes).
namespace iterlab::math {

// A Chebyshev series, by Clenshaw, rounded in ATen's order: another one cost 3 ulp.
template <class T>
ITERLAB_FN Vec<T> chebyshev(const Vec<T>& x, const std::tuple<const T*, size_t>& series) {
  const auto [coefficients, count] = series;
  const Vec<T> zero(T(0));
  Vec<T> now(coefficients[0]), last = zero, before_last = zero;
  for (size_t i = 1; i < count; ++i) {
    before_last = last;
    last = now;
    now = at::vec::fmsub(x, last, before_last) + Vec<T>(coefficients[i]);
  }
  return Vec<T>(T(0.5)) * (now - before_last);
}

// near * A(x) up to 8, far * B(32 / x) / sqrt(x) beyond, of x >= 0.
template <class T>
ITERLAB_FN Vec<T> bessel(const Vec<T>& x, const Vec<T>& near, const Vec<T>& far,
                         const std::tuple<const T*, size_t>& A,
                         const std::tuple<const T*, size_t>& B) {
  const Vec<T> two(T(2));
  const VecMask<T> is_far = negated(le(x, Vec<T>(T(8))));
  const auto by_inverse = [&] {
    return far * chebyshev(Vec<T>(T(32)) / x - two, B) / math::sqrt(x);
  };
  if (all(is_far)) return by_inverse();
  const Vec<T> by_size = near * chebyshev(x / two - two, A);
  return select_or_compute(negated(is_far), by_size, by_inverse);
}

template <class T>
ITERLAB_FN Vec<T> i0(const Vec<T>& x) {
  const Vec<T> size = x.abs(), growth = size.exp();
  return bessel(size, growth, growth, ::chebyshev_coefficients_i0e_A<T>(),
                ::chebyshev_coefficients_i0e_B<T>());
}
template <class T>
ITERLAB_FN Vec<T> i0e(const Vec<T>& x) {
  const Vec<T> one(T(1));
  return bessel(x.abs(), one, one, ::chebyshev_coefficients_i0e_A<T>(),
                ::chebyshev_coefficients_i0e_B<T>());
}

// Odd functions.
template <class T>
ITERLAB_FN Vec<T> with_sign_of(const Vec<T>& x, const Vec<T>& magnitude) {
  return select(lt(x, Vec<T>(T(0))), magnitude.neg(), magnitude);
}
template <class T>
ITERLAB_FN Vec<T> i1(const Vec<T>& x) {
  const Vec<T> size = x.abs(), growth = size.exp();
  return with_sign_of(x, bessel(size, growth * size, growth, ::chebyshev_coefficients_i1e_A<T>(),
                                ::chebyshev_coefficients_i1e_B<T>()));
}
template <class T>
ITERLAB_FN Vec<T> i1e(const Vec<T>& x) {
  const Vec<T> size = x.abs();
  return with_sign_of(x, bessel(size, size, Vec<T>(T(1)), ::chebyshev_coefficients_i1e_A<T>(),
                                ::chebyshev_coefficients_i1e_B<T>()));
}

}  // namespace iterlab::math
