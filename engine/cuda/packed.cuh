// Elements of a byte each, collected four at a time.
#pragma once

#include "iterlab/reduce_formulas.h"

#include <concepts>

namespace iterlab::cuda {

// The top bit of every byte that is not zero.
__device__ __forceinline__ uint32_t nonzero_bytes(uint32_t word) {
  return (((word & 0x7f7f7f7fu) + 0x7f7f7f7fu) | word) & 0x80808080u;
}

// How formula F collects a word of elements C in a value of B: what F::add gives for one after the
// other.
template <class F, class C>
struct PackedBytes {
  static constexpr bool kExists = false;
};

template <class F, class C>
  requires(sizeof(C) == 1 &&
           (std::same_as<F, formulas::Sum> || std::same_as<F, formulas::CountNonzero>))
struct PackedBytes<F, C> {
  static constexpr bool kExists = true;
  static __device__ __forceinline__ int32_t add(int32_t sum, uint32_t word) {
    constexpr uint32_t kOnes = 0x01010101u;
    if constexpr (std::same_as<F, formulas::CountNonzero> || std::same_as<C, bool>) {
      return static_cast<int32_t>(
          __dp4a(nonzero_bytes(word) >> 7, kOnes, static_cast<uint32_t>(sum)));
    } else if constexpr (std::same_as<C, int8_t>) {
      return __dp4a(static_cast<int32_t>(word), static_cast<int32_t>(kOnes), sum);
    } else {
      return static_cast<int32_t>(__dp4a(word, kOnes, static_cast<uint32_t>(sum)));
    }
  }
};

template <class C>
  requires(sizeof(C) == 1)
struct PackedBytes<formulas::Any, C> {
  static constexpr bool kExists = true;
  static __device__ __forceinline__ uint8_t add(uint8_t any, uint32_t word) {
    const uint32_t half = word | word >> 16;
    return static_cast<uint8_t>(any | half | half >> 8);
  }
};

template <class C>
  requires(sizeof(C) == 1)
struct PackedBytes<formulas::All, C> {
  static constexpr bool kExists = true;
  static __device__ __forceinline__ uint8_t add(uint8_t all, uint32_t word) {
    return nonzero_bytes(word) == 0x80808080u ? all : uint8_t{0};
  }
};

}  // namespace iterlab::cuda
