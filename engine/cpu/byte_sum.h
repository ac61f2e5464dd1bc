// Sums of bytes and 16-bit integers: the instructions that add neighbours while they widen.
#pragma once

#include "iterlab/config.h"

#include <cstdint>

#if defined(CPU_CAPABILITY_AVX2) || defined(CPU_CAPABILITY_AVX512)
#include <immintrin.h>
#define ITERLAB_HAS_BYTE_SUM
#endif

namespace iterlab::cpu {
inline namespace CPU_CAPABILITY {

enum class ByteKind : uint8_t { Unsigned, Signed, Truth };  // Truth: 1 for what is not 0

#if defined(CPU_CAPABILITY_AVX512)
#define ITERLAB_INTEGERS(name) _mm512_##name
using Integers = __m512i;
ITERLAB_FN Integers load_integers(const void* data) { return _mm512_loadu_si512(data); }
ITERLAB_FN Integers exclusive_or(Integers a, Integers b) { return _mm512_xor_si512(a, b); }
#elif defined(CPU_CAPABILITY_AVX2)
#define ITERLAB_INTEGERS(name) _mm256_##name
using Integers = __m256i;
ITERLAB_FN Integers load_integers(const void* data) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(data));
}
ITERLAB_FN Integers exclusive_or(Integers a, Integers b) { return _mm256_xor_si256(a, b); }
#endif

#if defined(ITERLAB_HAS_BYTE_SUM)

// psadbw sums eight bytes to 64 bits. Signed bytes are shifted to unsigned ones, 128 more each.
template <ByteKind kind>
int64_t sum_bytes(const uint8_t* data, int64_t count) {
  constexpr int64_t width = sizeof(Integers);
  const Integers one = ITERLAB_INTEGERS(set1_epi8)(1), zero = exclusive_or(one, one);
  const auto unsigned_bytes = [&](Integers x) {
    if constexpr (kind == ByteKind::Signed)
      return exclusive_or(x, ITERLAB_INTEGERS(set1_epi8)(static_cast<char>(0x80)));
    if constexpr (kind == ByteKind::Truth) return ITERLAB_INTEGERS(min_epu8)(x, one);
    return x;
  };
  Integers sums[4] = {zero, zero, zero, zero};
  int64_t i = 0;
  for (; i + 4 * width <= count; i += 4 * width) {
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) {
      const Integers x = unsigned_bytes(load_integers(data + i + k * width));
      sums[k] = ITERLAB_INTEGERS(add_epi64)(sums[k], ITERLAB_INTEGERS(sad_epu8)(x, zero));
    }
  }
  int64_t lanes[4 * width / 8];
  __builtin_memcpy(lanes, sums, sizeof(lanes));
  int64_t total = kind == ByteKind::Signed ? -128 * i : 0;
  for (int64_t lane : lanes) total += lane;
  for (; i < count; ++i) {
    total += kind == ByteKind::Signed  ? static_cast<int8_t>(data[i])
             : kind == ByteKind::Truth ? data[i] != 0
                                       : data[i];
  }
  return total;
}

// pmaddwd sums two signed 16-bit integers to 32 bits: at most kWordBlock of them.
inline constexpr int64_t kWordBlock = 1 << 16;
inline int64_t sum_words(const int16_t* data, int64_t count) {
  constexpr int64_t width = sizeof(Integers) / 2;
  const Integers one = ITERLAB_INTEGERS(set1_epi16)(1);
  Integers sums[2] = {exclusive_or(one, one), exclusive_or(one, one)};
  int64_t i = 0;
  for (; i + 2 * width <= count; i += 2 * width) {
#pragma GCC unroll 2
    for (int k = 0; k < 2; ++k) {
      const Integers x = load_integers(data + i + k * width);
      sums[k] = ITERLAB_INTEGERS(add_epi32)(sums[k], ITERLAB_INTEGERS(madd_epi16)(x, one));
    }
  }
  int32_t lanes[2 * width / 2];
  __builtin_memcpy(lanes, sums, sizeof(lanes));
  int64_t total = 0;
  for (int32_t lane : lanes) total += lane;
  for (int64_t rest = count - i; rest > 0; --rest) total += data[count - rest];
  return total;
}

#endif
#undef ITERLAB_INTEGERS

}  // namespace CPU_CAPABILITY
}  // namespace iterlab::cpu
