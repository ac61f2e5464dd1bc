// The mathematics of functors for scalars: comparison, selection, rounding. Elementary functions
// are in math_*.h; engine/cpu/vec_math.h has the same names for SIMD vectors.
#pragma once

#include "iterlab/lane.h"

#include <cmath>
#include <complex>

// Note [Masks]
// A comparison returns a mask: bool for a lane, a vector of all-ones or all-zeros lanes for a SIMD
// vector. Masks are combined with both/either/negated and consumed by select and as_value; functors
// do not look inside.
namespace iterlab::math {

template <class T>
ITERLAB_FN bool eq(Lane<T> a, Lane<T> b) {
  return a.value == b.value;
}
template <class T>
ITERLAB_FN bool ne(Lane<T> a, Lane<T> b) {
  return a.value != b.value;
}
template <class T>
ITERLAB_FN bool lt(Lane<T> a, Lane<T> b) {
  return a.value < b.value;
}
template <class T>
ITERLAB_FN bool le(Lane<T> a, Lane<T> b) {
  return a.value <= b.value;
}
template <class T>
ITERLAB_FN bool gt(Lane<T> a, Lane<T> b) {
  return a.value > b.value;
}
template <class T>
ITERLAB_FN bool ge(Lane<T> a, Lane<T> b) {
  return a.value >= b.value;
}

ITERLAB_FN bool both(bool a, bool b) { return a && b; }
ITERLAB_FN bool either(bool a, bool b) { return a || b; }
ITERLAB_FN bool negated(bool a) { return !a; }

// Whether a lane, taken as bits or as a number, is not zero.
template <class T>
ITERLAB_FN bool is_true(Lane<T> x) {
  return x.value != T(0);
}

template <class T>
ITERLAB_FN bool isnan(Lane<T> x) {
  if constexpr (is_complex_v<T>) {
    return x.value.real() != x.value.real() || x.value.imag() != x.value.imag();
  } else if constexpr (std::is_floating_point_v<T>) {
    return x.value != x.value;
  } else {
    return false;
  }
}

template <class T>
ITERLAB_FN Lane<T> select(bool condition, Lane<T> if_true, Lane<T> if_false) {
  if constexpr (std::is_same_v<T, bool>) {  // without a branch
    return Lane<bool>((condition & if_true.value) | (!condition & if_false.value));
  } else {
    return Lane<T>(condition ? if_true.value : if_false.value);
  }
}

// As select, of a second choice that is dear: computed only where a lane takes it.
template <class T, class Fn>
ITERLAB_FN Lane<T> select_or_compute(bool condition, Lane<T> if_true, Fn if_false) {
  return condition ? if_true : if_false();
}

// 1 where the mask is true, 0 elsewhere: what an operator that returns bool gives its caller.
template <class V>
ITERLAB_FN V as_value(bool mask) {
  return constant<V>(mask);
}

// a * b + c, rounded once for real floating types, as ATen's vectorised add does; wrapping for
// integers. No vector instruction multiplies bytes, so 1 and -1, which b mostly is, have loops of
// their own.
template <class T>
ITERLAB_FN Lane<T> fma(Lane<T> a, Lane<T> b, Lane<T> c) {
  if constexpr (std::is_floating_point_v<T>) {
    return std::fma(a.value, b.value, c.value);
  } else {
    if constexpr (detail::wraps<T> && sizeof(T) == 1) {
      if (b.value == T(1)) return a + c;
      if (b.value == static_cast<T>(-1)) return c - a;
    }
    return a * b + c;
  }
}

}  // namespace iterlab::math
