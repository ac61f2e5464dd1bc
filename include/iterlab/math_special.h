// Special functions of functors for scalars.
#pragma once

#include "iterlab/math.h"

namespace iterlab {

// Note [Special functions]
// Long functions of one number, which each backend defines for float and double: on the CPU
// engine/cpu/vec_special.h, with ATen/native/Math.h. They are here as declarations, so that
// functors need not see ATen. No SIMD vector computes them, so their operators run over lanes.
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

template <class T>
ITERLAB_FN Lane<T> polygamma(Lane<T> x, int64_t n) {
  if (n == 0) return special::digamma<T>(x.value);
  if (n == 1) return special::trigamma<T>(x.value);
  return special::polygamma<T>(x.value, static_cast<int>(n));
}

}  // namespace math
}  // namespace iterlab
