// Casts of contiguous elements between any two storage types, the same bits at every position.
#pragma once

#include "engine/cpu/kernel_table.h"
#include "iterlab/dtype.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>

#if defined(CPU_CAPABILITY_AVX2) || defined(CPU_CAPABILITY_AVX512)
#include <immintrin.h>
#endif

namespace iterlab::cpu {
inline namespace CPU_CAPABILITY {

// Note [Casts]
// ATen's rules, made independent of the element's position, of the vector width and of the
// capability:
//  * every type that is stored only passes through its compute type: half, bfloat16 and float8
//    through float (so double rounds to float first, as in c10), complex32 through complex64;
//  * a number is true when it is not zero (NaN is true, a complex number when either part is);
//  * complex to real drops the imaginary part, real to complex makes a zero one;
//  * float to integer: see Note [Float to integer]; integer to integer wraps;
//  * NaN to bfloat16 is 0x7FC0 (c10's scalar code; at::vec gives 0xFFFF); NaN to half is quiet and
//    keeps its sign and the top of its payload (the F16C instruction; c10's portable code: 0x7E00).
// So three loops cover all 420 pairs: storage → compute, compute → compute, compute → storage,
// chained over blocks.

// Note [Float to integer]
// x86's truncation: what does not fit becomes the most negative integer *of the width that the
// conversion runs in*, which is int32 for the signed types up to 32 bits and int64 for all others,
// as in ATen's compiled code. The static_casts below are that instruction, scalar and vector alike
// (-fno-trapping-math lets the loops vectorise); the C++ standard leaves the out-of-range case
// undefined, but neither GCC's nor Clang's -fsanitize=undefined includes it (float-cast-overflow is
// separate).

template <class To, class From>
ITERLAB_FN To truncate(From x) {
  if constexpr (std::is_same_v<To, uint64_t>) {
    constexpr From kHalfRange = static_cast<From>(uint64_t{1} << 63);
    const bool high = x >= kHalfRange;  // false for NaN, which becomes 1 << 63
    const uint64_t low = static_cast<uint64_t>(static_cast<int64_t>(high ? x - kHalfRange : x));
    return low ^ (high ? uint64_t{1} << 63 : uint64_t{0});
  } else if constexpr (std::is_same_v<To, uint8_t> && std::is_same_v<From, float>) {
    // A float of 2^31 or more is a multiple of 256, so that its low byte is 0 by way of int32 as by
    // way of int64; and AVX2 has no vector conversion to int64.
    return static_cast<To>(static_cast<int32_t>(x));
  } else if constexpr (std::is_unsigned_v<To> || sizeof(To) == 8) {
    return static_cast<To>(static_cast<int64_t>(x));
  } else {
    return static_cast<To>(static_cast<int32_t>(x));
  }
}

template <class To, class From>
ITERLAB_FN To convert(From x) {
  if constexpr (std::is_same_v<To, bool>) {
    return x != From{0};
  } else if constexpr (std::is_same_v<From, bool>) {
    return x ? To{1}
             : To{0};  // a blend: GCC 12 does not vectorise the conversion (4.5 GB/s against 97)
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    return truncate<To>(x);
  } else {
    return static_cast<To>(x);
  }
}

// Element `index`, at any alignment. A bool is read as a byte: memory may hold more than 0 and 1.
template <class T>
ITERLAB_FN T load_element(const char* data, int64_t index) {
  if constexpr (std::is_same_v<T, bool>) {
    return data[index] != 0;
  } else {
    T value;
    std::memcpy(&value, data + index * static_cast<int64_t>(sizeof(T)), sizeof(T));
    return value;
  }
}

template <class T>
ITERLAB_FN void store_element(char* data, int64_t index, T value) {
  std::memcpy(data + index * static_cast<int64_t>(sizeof(T)), &value, sizeof(T));
}

// The loops are kept out of line: each is reached from many of the 420 chains.
#define ITERLAB_LOOP [[gnu::noinline]] inline void

// Between real compute types.
template <class From, class To>
ITERLAB_LOOP cast_real(const char* __restrict from, char* __restrict to, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    store_element(to, i, convert<To>(load_element<From>(from, i)));
}

template <class From, class To>
ITERLAB_LOOP cast_complex_to_real(const char* __restrict from, char* __restrict to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    const From real = load_element<From>(from, 2 * i);
    if constexpr (std::is_same_v<To, bool>) {
      const From imag = load_element<From>(from, 2 * i + 1);
      store_element<bool>(to, i, (real != From{0}) | (imag != From{0}));
    } else {
      store_element(to, i, convert<To>(real));
    }
  }
}

template <class From, class To>
ITERLAB_LOOP cast_real_to_complex(const char* __restrict from, char* __restrict to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    store_element(to, 2 * i, convert<To>(load_element<From>(from, i)));
    store_element(to, 2 * i + 1, To{0});
  }
}

// Between any two compute types.
template <class From, class To>
void cast_compute(const char* from, char* to, int64_t count) {
  if constexpr (is_complex_v<From> && is_complex_v<To>) {
    cast_real<typename From::value_type, typename To::value_type>(from, to, 2 * count);
  } else if constexpr (is_complex_v<From>) {
    cast_complex_to_real<typename From::value_type, To>(from, to, count);
  } else if constexpr (is_complex_v<To>) {
    cast_real_to_complex<From, typename To::value_type>(from, to, count);
  } else {
    cast_real<From, To>(from, to, count);
  }
}

// Half by way of the F16C instructions, eight or sixteen at a time. The 512-bit ones are spelled
// with a full mask, here and in transpose.h, because GCC 12 calls the plain spelling uninitialised
// (GCC bug 105593); the code is the same.
#if defined(CPU_CAPABILITY_AVX512)
inline constexpr int64_t kHalfLanes = 16;
ITERLAB_FN void widen_halves(const char* from, char* to) {
  const __m256i half = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
  _mm512_storeu_ps(to, _mm512_maskz_cvtph_ps(0xFFFF, half));
}
ITERLAB_FN void narrow_halves(const char* from, char* to) {
  const __m256i half =
      _mm512_maskz_cvtps_ph(0xFFFF, _mm512_loadu_ps(from), _MM_FROUND_TO_NEAREST_INT);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), half);
}
#elif defined(CPU_CAPABILITY_AVX2)
inline constexpr int64_t kHalfLanes = 8;
ITERLAB_FN void widen_halves(const char* from, char* to) {
  const __m128i half = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  _mm256_storeu_ps(reinterpret_cast<float*>(to), _mm256_cvtph_ps(half));
}
ITERLAB_FN void narrow_halves(const char* from, char* to) {
  const __m256 full = _mm256_loadu_ps(reinterpret_cast<const float*>(from));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to),
                   _mm256_cvtps_ph(full, _MM_FROUND_TO_NEAREST_INT));
}
#else
inline constexpr int64_t kHalfLanes = 1;
ITERLAB_FN void widen_halves(const char* from, char* to) {
  store_element(to, 0, c10::detail::fp16_ieee_to_fp32_value(load_element<uint16_t>(from, 0)));
}
ITERLAB_FN void narrow_halves(const char* from, char* to) {
  const float value = load_element<float>(from, 0);
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t nan = ((bits >> 16) & 0x8000u) | 0x7E00u | ((bits >> 13) & 0x3FFu);
  const bool is_nan = (bits & 0x7FFFFFFFu) > 0x7F800000u;
  store_element(
      to, 0, is_nan ? static_cast<uint16_t>(nan) : c10::detail::fp16_ieee_from_fp32_value(value));
}
#endif

// Applies `block`, which converts kHalfLanes elements, to `count`; the rest goes through a padded
// copy, so that the same instruction sees every element.
template <int64_t kFromBytes, int64_t kToBytes, class Block>
ITERLAB_FN void for_half_blocks(const char* from, char* to, int64_t count, Block block) {
  int64_t i = 0;
  for (; i + kHalfLanes <= count; i += kHalfLanes) block(from + i * kFromBytes, to + i * kToBytes);
  if constexpr (kHalfLanes > 1) {
    if (i == count) return;
    char padded_from[kHalfLanes * kFromBytes] = {}, padded_to[kHalfLanes * kToBytes];
    std::memcpy(padded_from, from + i * kFromBytes, static_cast<size_t>((count - i) * kFromBytes));
    block(padded_from, padded_to);
    std::memcpy(to + i * kToBytes, padded_to, static_cast<size_t>((count - i) * kToBytes));
  }
}

// Round to nearest, ties to even; the sum cannot overflow, because the largest non-NaN is infinity.
ITERLAB_FN uint16_t round_to_bfloat16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t rounded = (bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16;
  return static_cast<uint16_t>(value != value ? 0x7FC0u : rounded);
}

// The values of a float8 type by its bits: c10's conversion takes 1.1 to 2.2 ns an element, a
// look-up 0.3 to 0.5.
template <class Float8>
const float* float8_values() {
  static const auto values = [] {
    std::array<float, 256> table;
    for (int bits = 0; bits < 256; ++bits) {
      table[static_cast<size_t>(bits)] = std::bit_cast<Float8>(static_cast<uint8_t>(bits));
    }
    return table;
  }();
  return values.data();
}

// From a type that is stored only to its compute type.
template <class From>
ITERLAB_LOOP widen(const char* __restrict from, char* __restrict to, int64_t count) {
  if constexpr (std::is_same_v<From, Half>) {
    for_half_blocks<2, 4>(from, to, count, [](const char* f, char* t) { widen_halves(f, t); });
  } else if constexpr (std::is_same_v<From, BFloat16>) {
    for (int64_t i = 0; i < count; ++i) {
      store_element(to, i, uint32_t{load_element<uint16_t>(from, i)} << 16);
    }
  } else if constexpr (is_complex_v<From>) {
    widen<Half>(from, to, 2 * count);
  } else {
    const float* values = float8_values<From>();
    for (int64_t i = 0; i < count; ++i)
      store_element(to, i, values[load_element<uint8_t>(from, i)]);
  }
}

// From a compute type to a type that is stored only.
template <class To>
ITERLAB_LOOP narrow(const char* __restrict from, char* __restrict to, int64_t count) {
  if constexpr (std::is_same_v<To, Half>) {
    for_half_blocks<4, 2>(from, to, count, [](const char* f, char* t) { narrow_halves(f, t); });
  } else if constexpr (std::is_same_v<To, BFloat16>) {
    for (int64_t i = 0; i < count; ++i) {
      store_element(to, i, round_to_bfloat16(load_element<float>(from, i)));
    }
  } else if constexpr (is_complex_v<To>) {
    narrow<Half>(from, to, 2 * count);
  } else {
    for (int64_t i = 0; i < count; ++i) {
      store_element(to, i, static_cast<To>(load_element<float>(from, i)));
    }
  }
}

#undef ITERLAB_LOOP

template <class T>
using ComputeType = std::conditional_t<
    dtype_of<T> == compute_dtype(dtype_of<T>), T,
    std::conditional_t<compute_dtype(dtype_of<T>) == DType::ComplexFloat, complex<float>, float>>;

// Between any two storage types, in blocks that stay in L1: 256 elements of at most 8 bytes, twice,
// are 4 kB.
template <class From, class To>
void cast(const char* from, char* to, int64_t count) {
  using FromCompute = ComputeType<From>;
  using ToCompute = ComputeType<To>;
  constexpr bool kWiden = !std::is_same_v<From, FromCompute>;
  constexpr bool kNarrow = !std::is_same_v<To, ToCompute>;
  constexpr bool kConvert = !std::is_same_v<FromCompute, ToCompute>;
  if constexpr (!kWiden && !kNarrow) {
    cast_compute<From, To>(from, to, count);
  } else if constexpr (!kNarrow && !kConvert) {
    widen<From>(from, to, count);
  } else if constexpr (!kWiden && !kConvert) {
    narrow<To>(from, to, count);
  } else {
    constexpr int64_t kBlock = 256;
    alignas(64) char widened[kWiden ? kBlock * sizeof(FromCompute) : 1];
    alignas(64) char converted[kConvert && kNarrow ? kBlock * sizeof(ToCompute) : 1];
    for (int64_t done = 0; done < count; done += kBlock) {
      const int64_t block = std::min(kBlock, count - done);
      const char* source = from + done * static_cast<int64_t>(sizeof(From));
      char* target = to + done * static_cast<int64_t>(sizeof(To));
      if constexpr (kWiden) {
        widen<From>(source, widened, block);
        source = widened;
      }
      if constexpr (kConvert) {
        char* hub = kNarrow ? converted : target;
        cast_compute<FromCompute, ToCompute>(source, hub, block);
        source = hub;
      }
      if constexpr (kNarrow) narrow<To>(source, target, block);
    }
  }
}

}  // namespace CPU_CAPABILITY
}  // namespace iterlab::cpu
