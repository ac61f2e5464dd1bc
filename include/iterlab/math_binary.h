// The mathematics of binary and ternary functors for scalars: division, powers, extremes, bits.
// engine/cpu/vec_binary.h has the same names for SIMD vectors.
#pragma once

#include "iterlab/math_elementary.h"

#include <cmath>
#include <limits>
#include <stdexcept>
#include <utility>

namespace iterlab {

// What an integer division by zero raises on the CPU, with ATen's text. A GPU cannot raise: the
// quotient is what its hardware gives.
class ZeroDivision : public std::domain_error {
 public:
  ZeroDivision() : std::domain_error("ZeroDivisionError") {}
};

// Functions of two numbers that are long enough to be compiled out of line; defined by each backend
// (on the CPU with ATen/native/Math.h).
namespace special {
template <class T>
ITERLAB_DECLARED T zeta(T x, T q);
template <class T>
ITERLAB_DECLARED T igamma(T a, T x);
template <class T>
ITERLAB_DECLARED T igammac(T a, T x);
template <class T>  // complex
ITERLAB_DECLARED T logaddexp(T x, T y);
}  // namespace special

namespace math {

template <class V>
inline constexpr bool is_integer = std::is_integral_v<scalar_of<V>>;
template <class V>
inline constexpr bool complex_valued = is_complex_v<scalar_of<V>>;

ITERLAB_FN bool differ(bool a, bool b) { return a != b; }

// Whether the magnitude of a number is below a limit.
template <class T>
ITERLAB_FN bool magnitude_below(Lane<T> x, double limit) {
  if constexpr (is_complex_v<T>) {
    using Real = typename T::value_type;
    return x.value.real() * x.value.real() + x.value.imag() * x.value.imag() <
           static_cast<Real>(limit * limit);
  } else {
    return abs(x).value < static_cast<T>(limit);
  }
}

// Functions of two floating point numbers.
#define ITERLAB_BINARY(name)                            \
  template <class T>                                    \
  ITERLAB_FN Lane<T> name(Lane<T> a, Lane<T> b) {       \
    return static_cast<T>(std::name(a.value, b.value)); \
  }
ITERLAB_BINARY(fmod)
ITERLAB_BINARY(atan2)
ITERLAB_BINARY(hypot)
ITERLAB_BINARY(copysign)
ITERLAB_BINARY(nextafter)
#undef ITERLAB_BINARY

template <class T>
ITERLAB_FN Lane<T> maximum(Lane<T> a, Lane<T> b) {
  if (isnan(a)) return a;
  if (isnan(b)) return b;
  return select(a.value < b.value, b, a);
}
template <class T>
ITERLAB_FN Lane<T> minimum(Lane<T> a, Lane<T> b) {
  if (isnan(a)) return a;
  if (isnan(b)) return b;
  return select(b.value < a.value, b, a);
}

// Note [Integer division]
// The hardware traps, and so ends the process, in two cases: a zero divisor, which raises here, and
// the most negative number divided by -1, which wraps around here (ATen's process ends).
template <class T>
ITERLAB_FN void check_divisor([[maybe_unused]] Lane<T> divisor) {
#if !defined(__CUDA_ARCH__)
  if (divisor.value == 0) [[unlikely]]
    throw ZeroDivision();
#endif
}

// Quotient rounded toward zero, and the remainder that goes with it.
template <class T>
ITERLAB_FN Lane<T> integer_quotient(Lane<T> a, Lane<T> b) {
  check_divisor(b);
  if constexpr (std::is_signed_v<T>) {
    if (b.value == -1) return -a;
  }
  return static_cast<T>(a.value / b.value);
}
template <class T>
ITERLAB_FN Lane<T> integer_remainder(Lane<T> a, Lane<T> b) {
  check_divisor(b);
  if constexpr (std::is_signed_v<T>) {
    if (b.value == -1) return T(0);
  }
  return static_cast<T>(a.value % b.value);
}

// Whether a nonzero remainder has another sign than the divisor: floor and trunc differ then.
// Without a branch, which would be a coin's toss.
template <class T>
ITERLAB_FN bool rounds_down(Lane<T> remainder, Lane<T> divisor) {
  if constexpr (std::is_signed_v<T>) {
    return (remainder.value != 0) & ((remainder.value ^ divisor.value) < 0);
  } else {
    return false;
  }
}

template <class T>
ITERLAB_FN Lane<T> integer_floor_quotient(Lane<T> a, Lane<T> b) {
  const Lane<T> quotient = integer_quotient(a, b);
  const Lane<T> remainder = a - quotient * b;  // a second division takes as long as the first
  return quotient - Lane<T>(static_cast<T>(rounds_down(remainder, b)));
}
template <class T>
ITERLAB_FN Lane<T> integer_modulus(Lane<T> a, Lane<T> b) {
  const Lane<T> remainder = integer_remainder(a, b);
  return remainder + b * Lane<T>(static_cast<T>(rounds_down(remainder, b)));
}

// Integers: by squaring, wrapping around; of a negative power only 1 and -1 are left.
template <class T>
ITERLAB_FN Lane<T> pow(Lane<T> base, Lane<T> exponent) {
  if constexpr (std::is_integral_v<T>) {
    if constexpr (std::is_signed_v<T>) {
      if (exponent.value < 0) {
        const bool odd = exponent.value % 2 != 0;
        return base.value == 1 ? T(1) : base.value == -1 ? (odd ? T(-1) : T(1)) : T(0);
      }
    }
    Lane<T> result = T(1);
    for (T left = exponent.value; left != 0; left = static_cast<T>(left / 2)) {
      if (left % 2 != 0) result = result * base;
      base = base * base;
    }
    return result;
  } else {
    using std::pow;
    return static_cast<T>(pow(base.value, exponent.value));
  }
}

// x * 2^exponent. Whole exponents of real numbers: rounded once, without overflow on the way.
template <class T>
ITERLAB_FN Lane<T> scale_by_power_of_two(Lane<T> x, Lane<T> exponent) {
  if constexpr (!is_complex_v<T>) {
    const T limit = T(1 << 20), power = exponent.value;
    if (power == std::trunc(power) && power - power == 0) {
      const T within = power < -limit ? -limit : power > limit ? limit : power;
      return std::ldexp(x.value, static_cast<int>(within));
    }
  }
  return x * pow(Lane<T>(T(2)), exponent);
}

template <class T>
ITERLAB_FN Lane<T> logaddexp(Lane<T> a, Lane<T> b) {
  return special::logaddexp(a.value, b.value);
}

// The number after `from` toward `to` among those of a 16-bit floating type.
template <class Narrow>
ITERLAB_FN float next_narrow(float from, float to) {
  if (from != from) return from;
  if (to != to) return to;
  if (from == to) return from;
  Narrow next(from);
  if (from == 0) {
    next.x = static_cast<uint16_t>(to < 0 ? 0x8001u : 0x0001u);
  } else {
    next.x = static_cast<uint16_t>((from < to) == (from > 0) ? next.x + 1u : next.x - 1u);
  }
  return static_cast<float>(next);
}
template <class Narrow>
ITERLAB_FN Lane<float> nextafter_narrow(Lane<float> from, Lane<float> to) {
  return next_narrow<Narrow>(from.value, to.value);
}

// The greatest common divisor, by Euclid. Magnitudes wrap around, as in ATen.
template <class T>
ITERLAB_FN Lane<T> gcd(Lane<T> a, Lane<T> b) {
  if (std::is_signed_v<T> && a.value < T(0)) a = -a;
  if (std::is_signed_v<T> && b.value < T(0)) b = -b;
  while (a.value != 0) {
    const Lane<T> divisor = a;
    a = integer_remainder(b, a);
    b = divisor;
  }
  return b;
}

// The least common multiple. The product is as wide as an int, or as T.
template <class T>
ITERLAB_FN Lane<T> lcm(Lane<T> a, Lane<T> b) {
  const Lane<T> divisor = gcd(a, b);
  if (divisor.value == 0) return T(0);
  using Wide = std::conditional_t<(sizeof(T) < 4), int64_t, T>;
  const Lane<Wide> product = Lane<Wide>(integer_quotient(a, divisor).value) * Lane<Wide>(b.value);
  return static_cast<T>(
      (std::is_signed_v<Wide> && product.value < Wide(0) ? -product : product).value);
}

// Bit by bit.
template <class T>
ITERLAB_FN Lane<T> bits_and(Lane<T> a, Lane<T> b) {
  return static_cast<T>(a.value & b.value);
}
template <class T>
ITERLAB_FN Lane<T> bits_or(Lane<T> a, Lane<T> b) {
  return static_cast<T>(a.value | b.value);
}
template <class T>
ITERLAB_FN Lane<T> bits_xor(Lane<T> a, Lane<T> b) {
  return static_cast<T>(a.value ^ b.value);
}

// Shifts by less than zero or by the width and more push every bit out. Vector instructions shift
// lanes of 32 and 64 bits by counts of their own; narrower ones are shifted by 8, 4, 2, 1, each if
// that bit of the count is set. (Spelled out: of a loop or a recursion GCC 12 makes wide lanes.)
template <class T>
ITERLAB_FN Lane<T> shift_left(Lane<T> a, Lane<T> b) {
  using U = std::make_unsigned_t<T>;
  constexpr U width = 8 * sizeof(T);
  const U count = static_cast<U>(b.value);
  U x = static_cast<U>(a.value);
  if constexpr (sizeof(T) < sizeof(int)) {
    if constexpr (sizeof(T) > 1) x = (count & 8) != 0 ? static_cast<U>(x << 8) : x;
    x = (count & 4) != 0 ? static_cast<U>(x << 4) : x;
    x = (count & 2) != 0 ? static_cast<U>(x << 2) : x;
    x = (count & 1) != 0 ? static_cast<U>(x << 1) : x;
  } else {
    x = x << (count & (width - 1));
  }
  return static_cast<T>(count < width ? x : U(0));
}
template <class T>
ITERLAB_FN Lane<T> shift_right(Lane<T> a, Lane<T> b) {
  using U = std::make_unsigned_t<T>;
  constexpr U width = 8 * sizeof(T);
  const U count = static_cast<U>(b.value);
  if constexpr (sizeof(T) < sizeof(int)) {  // of a negative number, the complement's complement
    const U sign = signbit(a) ? static_cast<U>(-1) : U(0);
    U x = static_cast<U>(static_cast<U>(a.value) ^ sign);
    if constexpr (sizeof(T) > 1) x = (count & 8) != 0 ? static_cast<U>(x >> 8) : x;
    x = (count & 4) != 0 ? static_cast<U>(x >> 4) : x;
    x = (count & 2) != 0 ? static_cast<U>(x >> 2) : x;
    x = (count & 1) != 0 ? static_cast<U>(x >> 1) : x;
    return static_cast<T>((count < width ? x : U(0)) ^ sign);
  } else if constexpr (std::is_signed_v<T>) {
    return a.value >> (count < width ? count : width - 1);
  } else {
    return count < width ? a.value >> (count & (width - 1)) : T(0);
  }
}

}  // namespace math
}  // namespace iterlab
