// The elementary functions of complex numbers on the GPU, beside c10::complex, where the functors
// look for them. Thrust's, which have the algorithms of a C library (Hull, Fairgrieve, Tang 1997;
// Kahan 1987) and are within 3 units of eps of the truth. libcu++'s, as those that ATen compiles at
// run time, are textbook formulas that cancel: 80 of asin, 7000 of tan.
#pragma once

#include "iterlab/dtype.h"

#include <thrust/complex.h>

#include <cmath>

namespace c10 {
namespace iterlab_detail {

template <class T>
ITERLAB_FN thrust::complex<T> theirs(const complex<T>& x) {
  return {x.real(), x.imag()};
}
template <class T>
ITERLAB_FN complex<T> ours(const thrust::complex<T>& x) {
  return {x.real(), x.imag()};
}

}  // namespace iterlab_detail

#define ITERLAB_COMPLEX(name)                                             \
  template <class T>                                                      \
  ITERLAB_FN complex<T> name(const complex<T>& x) {                       \
    return iterlab_detail::ours(thrust::name(iterlab_detail::theirs(x))); \
  }
ITERLAB_COMPLEX(exp)
ITERLAB_COMPLEX(log)
ITERLAB_COMPLEX(log10)
ITERLAB_COMPLEX(sqrt)
ITERLAB_COMPLEX(sin)
ITERLAB_COMPLEX(cos)
ITERLAB_COMPLEX(tan)
ITERLAB_COMPLEX(asin)
ITERLAB_COMPLEX(acos)
ITERLAB_COMPLEX(atan)
ITERLAB_COMPLEX(sinh)
ITERLAB_COMPLEX(cosh)
ITERLAB_COMPLEX(tanh)
ITERLAB_COMPLEX(asinh)
ITERLAB_COMPLEX(acosh)
ITERLAB_COMPLEX(atanh)
#undef ITERLAB_COMPLEX

// exp(exponent * log(x)): the error grows with what exp is taken of, so float is computed in
// double.
template <class T>
ITERLAB_FN complex<T> pow(const complex<T>& x, const complex<T>& exponent) {
  using Wide = thrust::complex<double>;
  return iterlab_detail::ours(thrust::complex<T>(
      thrust::pow(Wide(iterlab_detail::theirs(x)), Wide(iterlab_detail::theirs(exponent)))));
}

// The two that thrust has not, with the formulas of c10/util/complex_math.h.
template <class T>
ITERLAB_FN complex<T> log1p(const complex<T>& z) {
  const T x = z.real(), y = z.imag();
  const T angle = std::atan2(y, x + T(1));
  if (std::hypot(x, y) < T(0.5)) {  // log(|1 + z|) without cancellation
    const T r = x * (T(2) + x) + y * y;
    return {r == T(0) ? x : T(0.5) * std::log1p(r), angle};
  }
  return {std::log(std::hypot(x + T(1), y)), angle};
}

template <class T>
ITERLAB_FN complex<T> expm1(const complex<T>& z) {
  const T x = z.real(), y = z.imag();
  const T half = std::sin(y / T(2));
  return {std::expm1(x) * std::cos(y) - T(2) * half * half, std::exp(x) * std::sin(y)};
}

}  // namespace c10
