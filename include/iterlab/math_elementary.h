// Elementary functions of functors for scalars: powers, logarithms, trigonometry, rounding, signs,
// parts of complex numbers. engine/cpu/vec_elementary.h has the same names for SIMD vectors.
#pragma once

#include "iterlab/math.h"

#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <numbers>

namespace iterlab::math {

// The functions of std. Of c10's complex numbers, by std's on the CPU; std has none for a GPU,
// whose backend has them beside c10::complex (engine/cuda/complex_math.cuh).
#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
#define ITERLAB_OF_COMPLEX(name, x) name(x)
#else
#define ITERLAB_OF_COMPLEX(name, x) std::name(std::complex(x.real(), x.imag()))
#endif
#define ITERLAB_ELEMENTARY(name)                   \
  template <class T>                               \
  ITERLAB_FN Lane<T> name(Lane<T> x) {             \
    if constexpr (is_complex_v<T>) {               \
      return T(ITERLAB_OF_COMPLEX(name, x.value)); \
    } else {                                       \
      return std::name(x.value);                   \
    }                                              \
  }
ITERLAB_ELEMENTARY(exp)
ITERLAB_ELEMENTARY(log)
ITERLAB_ELEMENTARY(log10)
ITERLAB_ELEMENTARY(sqrt)
ITERLAB_ELEMENTARY(sin)
ITERLAB_ELEMENTARY(cos)
ITERLAB_ELEMENTARY(tan)
ITERLAB_ELEMENTARY(asin)
ITERLAB_ELEMENTARY(acos)
ITERLAB_ELEMENTARY(atan)
ITERLAB_ELEMENTARY(sinh)
ITERLAB_ELEMENTARY(cosh)
ITERLAB_ELEMENTARY(tanh)
ITERLAB_ELEMENTARY(asinh)
ITERLAB_ELEMENTARY(acosh)
ITERLAB_ELEMENTARY(atanh)
#undef ITERLAB_ELEMENTARY
#undef ITERLAB_OF_COMPLEX

// std has none of complex numbers: those are found beside c10::complex, which the backend includes.
#define ITERLAB_NEAR_ZERO(name)        \
  template <class T>                   \
  ITERLAB_FN Lane<T> name(Lane<T> x) { \
    using std::name;                   \
    return name(x.value);              \
  }
ITERLAB_NEAR_ZERO(expm1)
ITERLAB_NEAR_ZERO(log1p)
#undef ITERLAB_NEAR_ZERO

template <class T>
ITERLAB_FN Lane<T> erf(Lane<T> x) {
  return std::erf(x.value);
}
template <class T>
ITERLAB_FN Lane<T> erfc(Lane<T> x) {
  return std::erfc(x.value);
}
template <class T>
ITERLAB_FN Lane<T> lgamma(Lane<T> x) {
  return std::lgamma(x.value);
}

// Integers are whole already.
#define ITERLAB_ROUNDING(name, function)   \
  template <class T>                       \
  ITERLAB_FN Lane<T> name(Lane<T> x) {     \
    if constexpr (std::is_integral_v<T>) { \
      return x;                            \
    } else {                               \
      return std::function(x.value);       \
    }                                      \
  }
ITERLAB_ROUNDING(ceil, ceil)
ITERLAB_ROUNDING(floor, floor)
ITERLAB_ROUNDING(trunc, trunc)
ITERLAB_ROUNDING(round, nearbyint)  // half to even
#undef ITERLAB_ROUNDING

// To base 2, complex numbers are scaled in each part, as in ATen: infinities stay in theirs.
template <class T>
ITERLAB_FN Lane<T> exp2(Lane<T> x) {
  if constexpr (is_complex_v<T>) {
    using Real = typename T::value_type;
    return exp(Lane<T>(x.value * static_cast<Real>(std::numbers::ln2)));
  } else {
    return std::exp2(x.value);
  }
}
template <class T>
ITERLAB_FN Lane<T> log2(Lane<T> x) {
  if constexpr (is_complex_v<T>) {
    using Real = typename T::value_type;
    return log(x).value / static_cast<Real>(std::numbers::ln2);
  } else {
    return std::log2(x.value);
  }
}

template <class T>
ITERLAB_FN Lane<T> neg(Lane<T> x) {
  return -x;
}

// The magnitude; of a complex number, as one without an imaginary part.
template <class T>
ITERLAB_FN Lane<T> abs(Lane<T> x) {
  if constexpr (is_complex_v<T>) {
    return T(std::hypot(x.value.real(), x.value.imag()));
  } else if constexpr (std::is_floating_point_v<T>) {
    return std::fabs(x.value);
  } else if constexpr (std::is_signed_v<T>) {
    return x.value < T(0) ? -x : x;
  } else {
    return x;
  }
}

template <class T>
ITERLAB_FN bool signbit(Lane<T> x) {
  if constexpr (std::is_floating_point_v<T>) {
    return std::signbit(x.value);
  } else if constexpr (std::is_signed_v<T>) {
    return x.value < T(0);
  } else {
    return false;
  }
}

// Whether a number, or a part of a complex one, is infinite.
template <class T>
ITERLAB_FN bool isinf(Lane<T> x) {
  if constexpr (is_complex_v<T>) {
    using Real = typename T::value_type;
    return isinf(Lane<Real>(x.value.real())) || isinf(Lane<Real>(x.value.imag()));
  } else if constexpr (std::is_floating_point_v<T>) {
    return std::fabs(x.value) == std::numeric_limits<T>::infinity();
  } else {
    return false;
  }
}

template <class T>
ITERLAB_FN Lane<T> conj(Lane<T> x) {
  if constexpr (is_complex_v<T>) {
    return T(x.value.real(), -x.value.imag());
  } else {
    return x;
  }
}

// x / |x|, and 0 for 0, of a complex number.
template <class T>
ITERLAB_FN Lane<T> direction(Lane<T> x) {
  const auto magnitude = std::hypot(x.value.real(), x.value.imag());
  return magnitude == 0 ? T(0) : x.value / magnitude;
}

// The angle to the positive real axis, of a complex number, as one without an imaginary part.
template <class T>
ITERLAB_FN Lane<T> phase(Lane<T> x) {
  return T(std::atan2(x.value.imag(), x.value.real()));
}

// A real number as mantissa * 2^exponent with a mantissa from 0.5 up to 1, as std::frexp has it,
// from its bits and without a branch. Zero, infinities and nan are their own mantissa.
template <class T>
struct MantissaAndExponent {
  using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  static constexpr int kFractionBits = std::numeric_limits<T>::digits - 1;
  static constexpr int kBias = std::numeric_limits<T>::max_exponent - 2;  // of the numbers below 1
  static constexpr int kSpecial = 2 * kBias + 3;                          // of infinities and nan
  static constexpr Bits kExponentBits = Bits(kSpecial) << kFractionBits;
  T mantissa;
  int exponent;

  ITERLAB_FN explicit MantissaAndExponent(T x) {
    const bool subnormal = std::fabs(x) < std::numeric_limits<T>::min();
    const T normal = subnormal ? x * T(Bits(2) << kFractionBits) : x;
    Bits bits;
    std::memcpy(&bits, &normal, sizeof(T));
    const int biased = static_cast<int>((bits & kExponentBits) >> kFractionBits);
    const bool splits = biased != 0 && biased != kSpecial;
    bits = (bits & ~kExponentBits) | Bits(kBias) << kFractionBits;
    std::memcpy(&mantissa, &bits, sizeof(T));
    mantissa = splits ? mantissa : x;
    exponent = splits ? biased - kBias - (subnormal ? kFractionBits + 1 : 0) : 0;
  }
};
template <class T>
ITERLAB_FN Lane<T> mantissa(Lane<T> x) {
  return MantissaAndExponent<T>(x.value).mantissa;
}
template <class T>
ITERLAB_FN Lane<T> exponent(Lane<T> x) {
  return static_cast<T>(MantissaAndExponent<T>(x.value).exponent);
}

// The parts of a complex number, as lanes of their own.
template <class T>
ITERLAB_FN auto real_part(Lane<T> x) {
  return Lane<typename T::value_type>(x.value.real());
}
template <class T>
ITERLAB_FN auto imag_part(Lane<T> x) {
  return Lane<typename T::value_type>(x.value.imag());
}
template <class V, class T>
ITERLAB_FN V from_parts(Lane<T> real, Lane<T> imag) {
  return scalar_of<V>(real.value, imag.value);
}

}  // namespace iterlab::math
