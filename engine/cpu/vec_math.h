// The mathematics of functors for SIMD vectors: PyTorch's own vector classes, which carry SLEEF's
// numerics.
#pragma once

#include "iterlab/math.h"

#include <ATen/cpu/vec/functional.h>

namespace iterlab {

// The SIMD vector of a compute type, or Lane<T> where plain loops serve as well: every compiler
// vectorises integers.
template <class T>
inline constexpr bool has_vector = std::is_floating_point_v<T> || is_complex_v<T>;

template <class T>
using Vector = std::conditional_t<has_vector<T>, at::vec::Vectorized<T>, Lane<T>>;

namespace math {

template <class T>
using Vec = at::vec::Vectorized<T>;

template <class T>
ITERLAB_FN Vec<T> exp(const Vec<T>& x) {
  return x.exp();
}

template <class T>
ITERLAB_FN Vec<T> fma(const Vec<T>& a, const Vec<T>& b, const Vec<T>& c) {
  return at::vec::fmadd(a, b, c);
}

}  // namespace math
}  // namespace iterlab
