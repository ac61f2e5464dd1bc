// Packs short runs of bytes (single elements, rows of a few) with vector shuffles.
#pragma once

#include "iterlab/config.h"

#include <cstdint>

#if defined(CPU_CAPABILITY_AVX2) || defined(CPU_CAPABILITY_AVX512)
#include <immintrin.h>
#define ITERLAB_HAS_SHUFFLES 1
#endif

namespace iterlab::cpu {
inline namespace CPU_CAPABILITY {

// `count` runs of `bytes` bytes, `stride` bytes apart.
struct Runs {
  int64_t bytes, stride, count;
};

#if defined(ITERLAB_HAS_SHUFFLES)

// Note [Shuffles]
// A shuffle reads kSpan bytes and writes as many whole runs as lie in them, at most kOut bytes;
// unit by unit, where a unit is the largest element that divides both the runs and their distance.
// One run after another a copy moves 4 bytes per load for a stride-2 float32; the AVX-512 shuffle
// moves 64 per two loads. Each shuffle has the members
//   kUnit, kSpan, kOut           bytes
//   Unit                         the integer that holds the index of a unit
//   Shuffle(units)               units[u]: the unit of the span that becomes unit u
//   move(from, to)               reads kSpan bytes, writes kOut
//   move_part(from, n, to, m)    reads n bytes, writes m: the end of a tile

#if defined(CPU_CAPABILITY_AVX512)
// The first `bytes` bytes of `unit`-byte lanes, as a mask.
ITERLAB_FN uint64_t first_lanes(int64_t bytes, int64_t unit) {
  const int64_t lanes = bytes / unit;
  return lanes >= 64 ? ~uint64_t{0} : (uint64_t{1} << lanes) - 1;
}

struct Shuffle4 {
  static constexpr int64_t kUnit = 4, kSpan = 128, kOut = 64;
  using Unit = int32_t;
  __m512i index;
  explicit Shuffle4(const Unit* units) : index(_mm512_loadu_si512(units)) {}
  void move(const char* from, char* to) const {
    const __m512i low = _mm512_loadu_si512(from), high = _mm512_loadu_si512(from + 64);
    _mm512_storeu_si512(to, _mm512_permutex2var_epi32(low, index, high));
  }
  void move_part(const char* from, int64_t read, char* to, int64_t written) const {
    const __mmask32 mask = static_cast<__mmask32>(first_lanes(read, kUnit));
    const __m512i low = _mm512_maskz_loadu_epi32(static_cast<__mmask16>(mask), from);
    const __m512i high = _mm512_maskz_loadu_epi32(static_cast<__mmask16>(mask >> 16), from + 64);
    _mm512_mask_storeu_epi32(to, static_cast<__mmask16>(first_lanes(written, kUnit)),
                             _mm512_permutex2var_epi32(low, index, high));
  }
};

struct Shuffle2 {
  static constexpr int64_t kUnit = 2, kSpan = 128, kOut = 64;
  using Unit = int16_t;
  __m512i index;
  explicit Shuffle2(const Unit* units) : index(_mm512_loadu_si512(units)) {}
  void move(const char* from, char* to) const {
    const __m512i low = _mm512_loadu_si512(from), high = _mm512_loadu_si512(from + 64);
    _mm512_storeu_si512(to, _mm512_permutex2var_epi16(low, index, high));
  }
  void move_part(const char* from, int64_t read, char* to, int64_t written) const {
    const uint64_t mask = first_lanes(read, kUnit);
    const __m512i low = _mm512_maskz_loadu_epi16(static_cast<__mmask32>(mask), from);
    const __m512i high = _mm512_maskz_loadu_epi16(static_cast<__mmask32>(mask >> 32), from + 64);
    _mm512_mask_storeu_epi16(to, static_cast<__mmask32>(first_lanes(written, kUnit)),
                             _mm512_permutex2var_epi16(low, index, high));
  }
};
#else
struct Shuffle4 {
  static constexpr int64_t kUnit = 4, kSpan = 64, kOut = 32;
  using Unit = int32_t;
  __m256i index, from_high;
  explicit Shuffle4(const Unit* units)
      : index(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(units))),
        from_high(_mm256_cmpgt_epi32(index, _mm256_set1_epi32(7))) {}
  __m256i shuffle(__m256i low, __m256i high) const {  // vpermd looks at the low three bits
    return _mm256_blendv_epi8(_mm256_permutevar8x32_epi32(low, index),
                              _mm256_permutevar8x32_epi32(high, index), from_high);
  }
  void move(const char* from, char* to) const {
    const __m256i low = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
    const __m256i high = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + 32));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), shuffle(low, high));
  }
  static __m256i first_lanes(int64_t bytes) {
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(bytes / kUnit)), lane);
  }
  void move_part(const char* from, int64_t read, char* to, int64_t written) const {
    const int* source = reinterpret_cast<const int*>(from);
    const __m256i low = _mm256_maskload_epi32(source, first_lanes(read));
    const __m256i high = _mm256_maskload_epi32(source + 8, first_lanes(read - 32));
    _mm256_maskstore_epi32(reinterpret_cast<int*>(to), first_lanes(written), shuffle(low, high));
  }
};
#endif

// Bytes (and 2-byte units on AVX2): pshufb on two halves; an index of 128 or more gives a zero, so
// the halves add up.
struct Shuffle1 {
  static constexpr int64_t kUnit = 1, kSpan = 32, kOut = 16;
  using Unit = int8_t;
  __m128i low_index, high_index;
  explicit Shuffle1(const Unit* units) {
    const __m128i index = _mm_loadu_si128(reinterpret_cast<const __m128i*>(units));
    low_index = _mm_or_si128(index, _mm_cmpgt_epi8(index, _mm_set1_epi8(15)));
    high_index = _mm_sub_epi8(index, _mm_set1_epi8(16));
  }
  void move(const char* from, char* to) const {
    const __m128i low = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
    const __m128i high = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + 16));
    _mm_storeu_si128(
        reinterpret_cast<__m128i*>(to),
        _mm_or_si128(_mm_shuffle_epi8(low, low_index), _mm_shuffle_epi8(high, high_index)));
  }
  void move_part(const char* from, int64_t read, char* to, int64_t written) const {
    char padded_from[kSpan] = {}, padded_to[kOut];
    for (int64_t i = 0; i < read; ++i) padded_from[i] = from[i];
    move(padded_from, padded_to);
    for (int64_t i = 0; i < written; ++i) to[i] = padded_to[i];
  }
};

// The number of runs that one shuffle moves.
template <class Shuffle>
constexpr int64_t runs_per_shuffle(Runs runs) {
  const int64_t readable = (Shuffle::kSpan - runs.bytes) / runs.stride + 1;
  const int64_t writable = Shuffle::kOut / runs.bytes;
  return readable < writable ? readable : writable;
}

// Packs `rows` sequences of runs, `row_stride` bytes apart. Nothing at or past `from_end` is read,
// nothing at or past `to_end` is written; between, a whole vector may be read beyond a row, and be
// written beyond it too, since the next row overwrites it.
template <class Shuffle>
[[gnu::noinline]] inline void pack_shuffled(const char* from, const char* from_end, Runs runs,
                                            int64_t row_stride, int64_t rows, char* to,
                                            const char* to_end) {
  const int64_t step = runs_per_shuffle<Shuffle>(runs);
  // Unit u belongs to run u / run_units; that division is a product with 2^16 / run_units rounded
  // up, exact for u < 64. Units past the last whole run get some index and are not used.
  using Unit = typename Shuffle::Unit;
  constexpr int kUnits = Shuffle::kOut / Shuffle::kUnit;
  const auto run_units = static_cast<int32_t>(runs.bytes / Shuffle::kUnit);
  const auto gap_units = static_cast<int32_t>(runs.stride / Shuffle::kUnit) - run_units;
  const int32_t reciprocal = (65535 + run_units) / run_units;
  alignas(64) Unit units[kUnits];
  for (int32_t u = 0; u < kUnits; ++u) {
    units[u] = static_cast<Unit>(u + ((u * reciprocal) >> 16) * gap_units);
  }
  const Shuffle shuffle(units);
  const int64_t from_step = step * runs.stride, to_step = step * runs.bytes;
  const int64_t last_from = from_end - from - Shuffle::kSpan;
  const int64_t last_to = to_end - to - Shuffle::kOut;
  for (int64_t row = 0; row < rows; ++row) {
    int64_t source = row * row_stride, target = row * runs.count * runs.bytes;
    int64_t left = runs.count;
    for (; left > 0 && source <= last_from && target <= last_to; left -= step) {
      shuffle.move(from + source, to + target);
      source += from_step;
      target += to_step;
    }
    for (; left > 0; left -= step) {
      const int64_t moved = left < step ? left : step;
      shuffle.move_part(from + source, (moved - 1) * runs.stride + runs.bytes, to + target,
                        moved * runs.bytes);
      source += from_step;
      target += to_step;
    }
  }
}

// Whether a shuffle beats copying run by run, which takes about a cycle a run where a shuffle takes
// three: not for two runs (7 of 8 float32 are even), nor when most of the store is overwritten
// (stride-8 float32: 6.8 against 10.5 GB/s).
template <class Shuffle>
constexpr bool pays(Runs runs) {
  const int64_t moved = runs_per_shuffle<Shuffle>(runs);
  return moved >= 3 && 2 * moved * runs.bytes >= Shuffle::kOut;
}

// Packs the runs of a tile if a shuffle pays, its set-up included; else returns false.
ITERLAB_FN bool try_pack_shuffled(const char* from, const char* from_end, Runs runs,
                                  int64_t row_stride, int64_t rows, char* to) {
  constexpr int64_t kMinBytes = 512;  // below, the set-up of about 25 ns decides
  constexpr int64_t kMaxStride = 64;
  const int64_t packed_bytes = rows * runs.count * runs.bytes;
  if (runs.stride < runs.bytes || runs.stride > kMaxStride || packed_bytes < kMinBytes)
    return false;
  char* const to_end = to + packed_bytes;
  const int64_t odd = runs.bytes | runs.stride;
  if (odd % 4 == 0 && pays<Shuffle4>(runs)) {
    pack_shuffled<Shuffle4>(from, from_end, runs, row_stride, rows, to, to_end);
    return true;
  }
#if defined(CPU_CAPABILITY_AVX512)
  if (odd % 2 == 0 && odd % 4 != 0 && pays<Shuffle2>(runs)) {
    pack_shuffled<Shuffle2>(from, from_end, runs, row_stride, rows, to, to_end);
    return true;
  }
#endif
  if (odd % 4 != 0 && pays<Shuffle1>(runs)) {
    pack_shuffled<Shuffle1>(from, from_end, runs, row_stride, rows, to, to_end);
    return true;
  }
  return false;
}

#endif  // ITERLAB_HAS_SHUFFLES

}  // namespace CPU_CAPABILITY
}  // namespace iterlab::cpu
