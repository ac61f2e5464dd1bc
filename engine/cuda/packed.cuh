// Elements of a byte each, four at a time.
#pragma once

#include "iterlab/ops/binary.h"
#include "iterlab/ops/integer.h"
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

// a + b * factor, byte by byte. Both halves of a product of two bytes and two more fit into 16 bits
// (255 * 255 + 255 < 65536), so one multiplication serves two bytes.
__device__ __forceinline__ uint32_t multiply_add_bytes(uint32_t a, uint32_t b, uint8_t factor) {
  constexpr uint32_t kEven = 0x00ff00ffu;
  const uint32_t even = (a & kEven) + (b & kEven) * factor;
  const uint32_t odd = (a >> 8 & kEven) + (b >> 8 & kEven) * factor;
  return __byte_perm(even, odd, 0x6240);
}

template <class T, class... Types>
inline constexpr bool is_one_of = (std::same_as<T, Types> || ...);

// Whether Op has a formula for words of elements T: the same results as element by element, in a
// fraction of the instructions that take bytes out of words and put them back.
template <class Op, class T>
inline constexpr bool has_word_formula =
    is_one_of<T, int8_t, uint8_t> &&
    is_one_of<Op, ops::Add, ops::Sub, ops::Rsub, ops::BitwiseAnd, ops::BitwiseOr, ops::BitwiseXor>;

// Whether a kernel of operands stored as In and results stored as Out is to use it.
template <class Op, class T, class In, class Out>
inline constexpr bool computes_words =
    has_word_formula<Op, T> && std::same_as<In, T> && std::same_as<Out, T>;

// `parameter`: the first, if there is one.
template <class Op, class T>
__device__ __forceinline__ uint32_t word_formula(T parameter, uint32_t input, uint32_t other) {
  if constexpr (std::same_as<Op, ops::Add>) {
    return multiply_add_bytes(input, other, static_cast<uint8_t>(parameter));
  } else if constexpr (std::same_as<Op, ops::Sub>) {
    return multiply_add_bytes(input, other, static_cast<uint8_t>(-parameter));
  } else if constexpr (std::same_as<Op, ops::Rsub>) {
    return multiply_add_bytes(other, input, static_cast<uint8_t>(-parameter));
  } else if constexpr (std::same_as<Op, ops::BitwiseAnd>) {
    return input & other;
  } else if constexpr (std::same_as<Op, ops::BitwiseOr>) {
    return input | other;
  } else {
    return input ^ other;
  }
}

}  // namespace iterlab::cuda
