// Special functions of functors for scalars.
#pragma once

#include "iterlab/math.h"

namespace iterlab {

// Note [Special functions]
// Long functions of one number, which each backend defines for float and double: on the CPU
// engine/cpu/vec_special.h, with ATen/native/Math.h. They are here as declarations, so that
// functors need not see ATen. SIMD vectors compute the Bessel functions; others run over lanes.
#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
#define ITERLAB_SPECIAL(name) \
  template <class T>          \
  __host__ __device__ T name(T x);
#else
#define ITERLAB_SPECIAL(name) \
  template <class T>          \
  T name(T x);
#endif

namespace special {
ITERLAB_SPECIAL(erfinv)
ITERLAB_SPECIAL(digamma)
ITERLAB_SPECIAL(trigamma)
ITERLAB_SPECIAL(i0)
ITERLAB_SPECIAL(i0e)
ITERLAB_SPECIAL(i1)
ITERLAB_SPECIAL(i1e)
ITERLAB_SPECIAL(erfcx)
ITERLAB_SPECIAL(ndtri)
ITERLAB_SPECIAL(log_ndtr)
#undef ITERLAB_SPECIAL

// The n-th derivative of digamma.
#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
template <class T>
__host__ __device__ T polygamma(T x, int n);
#else
template <class T>
T polygamma(T x, int n);
#endif

// The tail of the normal distribution beyond |x| is e^(-x^2 / 2) (k1 t + k2 t^2 + ... + k8 t^8)
// with t = 1 / (1 + kSlope |x|): fitted to 1e-7 of the tail everywhere, where 1 + erf cancels.
struct NormalTail {
  static constexpr float kSlope = 0.305f;
  static constexpr float k1 = 0.12163974540681938f, k2 = 0.1224666277794535f,
                         k3 = 0.10342203407771823f, k4 = 0.12101778834640058f,
                         k5 = -0.03796927913711537f, k6 = 0.18570837589334946f,
                         k7 = -0.1529831235940637f, k8 = 0.03669787774381938f;
};

// Of a float on the GPU, in few instructions: Note [Short formulas] in engine/cuda/short_math.cuh.
#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
__host__ __device__ float sigmoid(float x);
__host__ __device__ float normal_cdf(float x);
#endif
}  // namespace special

namespace math {

#define ITERLAB_SPECIAL(name)          \
  template <class T>                   \
  ITERLAB_FN Lane<T> name(Lane<T> x) { \
    return special::name<T>(x.value);  \
  }
ITERLAB_SPECIAL(erfinv)
ITERLAB_SPECIAL(digamma)
ITERLAB_SPECIAL(i0)
ITERLAB_SPECIAL(i0e)
ITERLAB_SPECIAL(i1)
ITERLAB_SPECIAL(i1e)
ITERLAB_SPECIAL(erfcx)
ITERLAB_SPECIAL(ndtri)
ITERLAB_SPECIAL(log_ndtr)
#undef ITERLAB_SPECIAL

// The share of a normal distribution below x.
template <class T>
ITERLAB_FN Lane<T> normal_cdf(Lane<T> x) {
#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
  if constexpr (std::is_same_v<T, float>) return special::normal_cdf(x.value);
#endif
  return T(0.5) * (T(1) + std::erf(x.value * T(std::numbers::sqrt2 / 2)));
}

template <class T>
ITERLAB_FN Lane<T> polygamma(Lane<T> x, int64_t n) {
  if (n == 0) return special::digamma<T>(x.value);
  if (n == 1) return special::trigamma<T>(x.value);
  return special::polygamma<T>(x.value, static_cast<int>(n));
}

}  // namespace math
}  // namespace iterlab
