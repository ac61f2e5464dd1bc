// Limits and the one function qualifier that every header of iterlab uses.
#pragma once

#include <cstdint>

#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
#define ITERLAB_FN __host__ __device__ inline __attribute__((always_inline))
#define ITERLAB_DECLARED __host__ __device__  // of a function that a backend defines
#else
#define ITERLAB_FN inline __attribute__((always_inline))
#define ITERLAB_DECLARED
#endif

namespace iterlab {

inline constexpr int kMaxDims =
    128;  // ATen allows 64; a reduction over dim 64 of a 65-d tensor works here
inline constexpr int kMaxOperands = 8;  // outputs and inputs of one operator together
inline constexpr int kMaxParameters = 4;

}  // namespace iterlab
