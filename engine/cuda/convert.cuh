// Conversion of one element between any two element types, in registers.
#pragma once

#include "iterlab/dtype.h"

#include <cstdint>
#include <type_traits>

namespace iterlab::cuda {

template <class T>
using ComputeType = std::conditional_t<
    dtype_of<T> == compute_dtype(dtype_of<T>), T,
    std::conditional_t<compute_dtype(dtype_of<T>) == DType::ComplexFloat, complex<float>, float>>;

// Note [Casts on the GPU]
// The rules of Note [Casts] in engine/cpu/cast.h: every type that is stored only passes through its
// compute type, a number is true when it is not zero, complex to real drops the imaginary part. Out
// of range, a float to an integer is what the hardware gives (it saturates), as in ATen's kernels.
template <class To, class From>
__device__ __forceinline__ To convert_real(From x) {
  if constexpr (std::is_same_v<To, bool>) {
    return x != From(0);
  } else if constexpr (std::is_floating_point_v<From> && std::is_same_v<To, uint64_t>) {
    constexpr From kHalfRange = static_cast<From>(uint64_t{1} << 63);
    return x < kHalfRange ? static_cast<uint64_t>(static_cast<int64_t>(x))
                          : static_cast<uint64_t>(x);
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    using Wide = std::conditional_t<std::is_unsigned_v<To> || sizeof(To) == 8, int64_t, int32_t>;
    return static_cast<To>(static_cast<Wide>(x));
  } else {
    return static_cast<To>(x);
  }
}

template <class To, class From>
__device__ __forceinline__ To convert_compute(From x) {
  if constexpr (std::is_same_v<To, From>) {
    return x;
  } else if constexpr (is_complex_v<From> && is_complex_v<To>) {
    using Part = typename To::value_type;
    return To(static_cast<Part>(x.real()), static_cast<Part>(x.imag()));
  } else if constexpr (is_complex_v<From>) {
    using Part = typename From::value_type;
    if constexpr (std::is_same_v<To, bool>) return x.real() != Part(0) || x.imag() != Part(0);
    return convert_real<To>(x.real());
  } else if constexpr (is_complex_v<To>) {
    return To(convert_real<typename To::value_type>(x));
  } else {
    return convert_real<To>(x);
  }
}

// To the compute type of a storage type, and back.
template <class S>
__device__ __forceinline__ ComputeType<S> widen(S x) {
  if constexpr (std::is_same_v<S, complex<Half>>) {
    return complex<float>(static_cast<float>(x.real()), static_cast<float>(x.imag()));
  } else if constexpr (std::is_same_v<S, ComputeType<S>>) {
    return x;
  } else {
    return static_cast<float>(x);
  }
}

template <class S>
__device__ __forceinline__ S narrow(ComputeType<S> x) {
  if constexpr (std::is_same_v<S, complex<Half>>) {
    return complex<Half>(Half(x.real()), Half(x.imag()));
  } else {
    return S(x);
  }
}

template <class To, class From>
__device__ __forceinline__ To convert(From x) {
  return narrow<To>(convert_compute<ComputeType<To>>(widen(x)));
}

}  // namespace iterlab::cuda
