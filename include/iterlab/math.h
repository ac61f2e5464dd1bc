// The mathematics of functors for scalars; engine/cpu/vec_math.h has the same names for SIMD
// vectors.
#pragma once

#include "iterlab/lane.h"

#include <cmath>

namespace iterlab::math {

template <class T>
ITERLAB_FN Lane<T> exp(Lane<T> x) {
  using std::exp;  // complex: found beside c10::complex
  return exp(x.value);
}

// a * b + c, rounded once for real floating types, as ATen's vectorised add does; wrapping for
// integers.
template <class T>
ITERLAB_FN Lane<T> fma(Lane<T> a, Lane<T> b, Lane<T> c) {
  if constexpr (std::is_floating_point_v<T>) {
    return std::fma(a.value, b.value, c.value);
  } else {
    return a * b + c;
  }
}

// Whether a lane, taken as bits or as a number, is not zero.
template <class T>
ITERLAB_FN bool is_true(Lane<T> x) {
  return x.value != T(0);
}

template <class T>
ITERLAB_FN Lane<T> select(bool condition, Lane<T> if_true, Lane<T> if_false) {
  return condition ? if_true : if_false;
}

}  // namespace iterlab::math
