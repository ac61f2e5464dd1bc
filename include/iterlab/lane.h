// Lane<T>: one scalar of a compute type, with the arithmetic that ATen gives its dtype.
#pragma once

#include "iterlab/dtype.h"

#include <bit>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace iterlab {

// Note [Lanes]
// A functor is a template over V. V is a SIMD vector where there is one for the compute type, else
// Lane<T>. Lane<T> is T with two differences: integers wrap around (they are computed unsigned, so
// overflow is defined), and for bool `+` is "or" and `*` is "and", as in ATen.
template <class T>
struct Lane {
  using value_type = T;
  T value;

  Lane() = default;
  ITERLAB_FN explicit(false) Lane(T v) : value(v) {}
};

// The scalar type behind a V.
template <class V>
using scalar_of = typename V::value_type;

// A constant as a V.
template <class V, class X>
ITERLAB_FN V constant(X x) {
  using T = scalar_of<V>;
  if constexpr (is_complex_v<T>) {
    return V(T(static_cast<typename T::value_type>(x)));
  } else {
    return V(static_cast<T>(x));
  }
}

namespace detail {

// The type in which integers are computed without undefined overflow: unsigned, at least int's
// width.
template <class T>
using Wrapping = std::make_unsigned_t<std::conditional_t<(sizeof(T) < sizeof(int)), int, T>>;

template <class T>
inline constexpr bool wraps = std::is_integral_v<T> && !std::is_same_v<T, bool>;

// -x, in the compilers of Note [Products of complex numbers] by way of an integer, so that they do
// not see through it.
template <class T>
ITERLAB_FN T negated(T x) {
#if defined(__GNUC__) && !defined(__clang__) && !defined(__CUDACC__) && __GNUC__ == 12 && \
    __GNUC_MINOR__ < 3
  using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  return std::bit_cast<T>(std::bit_cast<Bits>(x) ^ (Bits(1) << (8 * sizeof(T) - 1)));
#else
  return -x;
#endif
}

}  // namespace detail

// Note [Products of complex numbers]
// A product of two complex numbers is a difference beside a sum of products. GCC 12 before 12.3
// makes one instruction of it where it vectorises a loop (vfmaddsub), in spite of
// -ffp-contract=off (its bug 107647); that rounds once for twice, and only the elements that are
// in a vector. A result must not depend on an element's place, so the difference is written as a
// sum of what that pattern does not match.
template <class Real>
ITERLAB_FN complex<Real> product(complex<Real> a, complex<Real> b) {
  return {a.real() * b.real() + detail::negated(a.imag() * b.imag()),
          a.real() * b.imag() + a.imag() * b.real()};
}

template <class T>
ITERLAB_FN Lane<T> operator+(Lane<T> a, Lane<T> b) {
  if constexpr (std::is_same_v<T, bool>) {
    return static_cast<bool>(a.value | b.value);
  } else if constexpr (detail::wraps<T>) {
    using W = detail::Wrapping<T>;
    return static_cast<T>(static_cast<W>(a.value) + static_cast<W>(b.value));
  } else {
    return a.value + b.value;
  }
}

template <class T>
ITERLAB_FN Lane<T> operator-(Lane<T> a, Lane<T> b) {
  if constexpr (std::is_same_v<T, bool>) {
    return static_cast<bool>(a.value ^ b.value);
  } else if constexpr (detail::wraps<T>) {
    using W = detail::Wrapping<T>;
    return static_cast<T>(static_cast<W>(a.value) - static_cast<W>(b.value));
  } else {
    return a.value - b.value;
  }
}

template <class T>
ITERLAB_FN Lane<T> operator*(Lane<T> a, Lane<T> b) {
  if constexpr (std::is_same_v<T, bool>) {
    return static_cast<bool>(a.value & b.value);
  } else if constexpr (detail::wraps<T>) {
    using W = detail::Wrapping<T>;
    return static_cast<T>(static_cast<W>(a.value) * static_cast<W>(b.value));
  } else if constexpr (is_complex_v<T>) {
    return product(a.value, b.value);
  } else {
    return a.value * b.value;
  }
}

// Of floating and complex types only: integers divide by zero.
template <class T>
ITERLAB_FN Lane<T> operator/(Lane<T> a, Lane<T> b) {
  static_assert(!std::is_integral_v<T>);
  return a.value / b.value;
}

template <class T>
ITERLAB_FN Lane<T> operator-(Lane<T> a) {
  if constexpr (std::is_floating_point_v<T> || is_complex_v<T>) {
    return -a.value;
  } else {
    return Lane<T>(T(0)) - a;
  }
}

}  // namespace iterlab
