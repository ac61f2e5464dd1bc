// The mathematics of functors for SIMD vectors: PyTorch's own vector classes, which carry SLEEF's
// numerics.
#pragma once

#include "iterlab/math.h"

#include <ATen/cpu/vec/functional.h>

namespace iterlab {

// The SIMD vector of a compute type, or Lane<T> where plain loops serve as well: every compiler
// vectorises integers. at::vec has complex vectors from AVX2 on.
#if defined(CPU_CAPABILITY_DEFAULT)
template <class T>
inline constexpr bool has_vector = std::is_floating_point_v<T>;
#else
template <class T>
inline constexpr bool has_vector = std::is_floating_point_v<T> || is_complex_v<T>;
#endif

template <class T>
using Vector = std::conditional_t<has_vector<T>, at::vec::Vectorized<T>, Lane<T>>;

namespace math {

template <class T>
using Vec = at::vec::Vectorized<T>;

// A mask is as wide as the vector that it came from, but of a type of its own: it is not a number.
// Of complex vectors, which have no order and no blend, it holds 1 or 0 for each number.
template <class T>
struct VecMask {
  Vec<T> lanes;
};

template <class T>
ITERLAB_FN VecMask<T> eq(const Vec<T>& a, const Vec<T>& b) {
  if constexpr (is_complex_v<T>) {
    return {a.eq(b)};
  } else {
    return {a == b};
  }
}
template <class T>
ITERLAB_FN VecMask<T> ne(const Vec<T>& a, const Vec<T>& b) {
  if constexpr (is_complex_v<T>) {
    return {a.ne(b)};
  } else {
    return {a != b};
  }
}
template <class T>
ITERLAB_FN VecMask<T> lt(const Vec<T>& a, const Vec<T>& b) {
  return {a < b};
}
template <class T>
ITERLAB_FN VecMask<T> le(const Vec<T>& a, const Vec<T>& b) {
  return {a <= b};
}
template <class T>
ITERLAB_FN VecMask<T> gt(const Vec<T>& a, const Vec<T>& b) {
  return {a > b};
}
template <class T>
ITERLAB_FN VecMask<T> ge(const Vec<T>& a, const Vec<T>& b) {
  return {a >= b};
}

template <class T>
ITERLAB_FN VecMask<T> both(const VecMask<T>& a, const VecMask<T>& b) {
  return {a.lanes & b.lanes};
}
template <class T>
ITERLAB_FN VecMask<T> either(const VecMask<T>& a, const VecMask<T>& b) {
  return {a.lanes | b.lanes};
}

template <class T>
ITERLAB_FN VecMask<T> is_true(const Vec<T>& x) {
  return ne(x, Vec<T>(T(0)));
}
template <class T>
ITERLAB_FN VecMask<T> isnan(const Vec<T>& x) {
  return ne(x, x);
}

template <class T>
ITERLAB_FN Vec<T> select(const VecMask<T>& condition, const Vec<T>& if_true,
                         const Vec<T>& if_false) {
  if constexpr (is_complex_v<T>) {
    T chosen[Vec<T>::size()], others[Vec<T>::size()], mask[Vec<T>::size()];
    if_true.store(chosen);
    if_false.store(others);
    condition.lanes.store(mask);
    for (int i = 0; i < Vec<T>::size(); ++i)
      chosen[i] = mask[i].real() != 0 ? chosen[i] : others[i];
    return Vec<T>::loadu(chosen);
  } else {
    return Vec<T>::blendv(if_false, if_true, condition.lanes);
  }
}

template <class V, class T>
ITERLAB_FN V as_value(const VecMask<T>& mask) {
  if constexpr (is_complex_v<T>) {
    return mask.lanes;
  } else {
    return select(mask, V(T(1)), V(T(0)));
  }
}

template <class T>
ITERLAB_FN VecMask<T> negated(const VecMask<T>& a) {
  return eq(as_value<Vec<T>>(a), Vec<T>(T(0)));
}

template <class T>
ITERLAB_FN Vec<T> fma(const Vec<T>& a, const Vec<T>& b, const Vec<T>& c) {
  return at::vec::fmadd(a, b, c);
}

}  // namespace math
}  // namespace iterlab
