// Gather and scatter of tiles that are contiguous along rows: matrix transposes in registers.
#pragma once

#include "engine/cpu/gather.h"
#include "iterlab/config.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace iterlab::cpu {
inline namespace CPU_CAPABILITY {

// A matrix in memory: lines `pitch` bytes apart, of contiguous elements.
struct Source {
  const char* data;
  int64_t pitch;
};
struct Target {
  char* data;
  int64_t pitch;
};

// Element by element, for what is smaller than the smallest block.
template <int kWidth>
void transpose_elements(Source source, Target target, int64_t lines, int64_t columns) {
  for (int64_t line = 0; line < lines; ++line) {
    copy_runs_of<kWidth>(source.data + line * source.pitch, kWidth, target.data + line * kWidth,
                         target.pitch, columns);
  }
}

#if defined(__SSE2__)

// The three register sizes, named by types that can be template arguments (the intrinsic types lose
// their attributes there), and by one set of functions. A *lane* is 16 bytes: unpacks work on each
// lane alone.
#define ITERLAB_REGISTER(Name, Register, load_fn, store_fn) \
  struct Name {                                             \
    using Type = Register;                                  \
  };                                                        \
  ITERLAB_FN void load(const char* from, Register& r) {     \
    r = load_fn(reinterpret_cast<const Register*>(from));   \
  }                                                         \
  ITERLAB_FN void store(char* to, Register r) { store_fn(reinterpret_cast<Register*>(to), r); }
#define ITERLAB_INTERLEAVE(name, Register, instruction)          \
  template <int kWidth>                                          \
  ITERLAB_FN Register name(Register a, Register b) {             \
    if constexpr (kWidth == 1) return instruction##_epi8(a, b);  \
    if constexpr (kWidth == 2) return instruction##_epi16(a, b); \
    if constexpr (kWidth == 4) return instruction##_epi32(a, b); \
    return instruction##_epi64(a, b);                            \
  }

ITERLAB_REGISTER(Xmm, __m128i, _mm_loadu_si128, _mm_storeu_si128)
ITERLAB_INTERLEAVE(interleave_low, __m128i, _mm_unpacklo)
ITERLAB_INTERLEAVE(interleave_high, __m128i, _mm_unpackhi)
#if defined(CPU_CAPABILITY_AVX2) || defined(CPU_CAPABILITY_AVX512)
ITERLAB_REGISTER(Ymm, __m256i, _mm256_loadu_si256, _mm256_storeu_si256)
ITERLAB_INTERLEAVE(interleave_low, __m256i, _mm256_unpacklo)
ITERLAB_INTERLEAVE(interleave_high, __m256i, _mm256_unpackhi)
#endif
#if defined(CPU_CAPABILITY_AVX512)
ITERLAB_REGISTER(Zmm, __m512i, _mm512_loadu_si512, _mm512_storeu_si512)
template <int kWidth>  // 4 or 8; full masks for GCC bug 105593, see cast.h
ITERLAB_FN __m512i interleave_low(__m512i a, __m512i b) {
  if constexpr (kWidth == 4) return _mm512_maskz_unpacklo_epi32(0xFFFF, a, b);
  return _mm512_maskz_unpacklo_epi64(0xFF, a, b);
}
template <int kWidth>
ITERLAB_FN __m512i interleave_high(__m512i a, __m512i b) {
  if constexpr (kWidth == 4) return _mm512_maskz_unpackhi_epi32(0xFFFF, a, b);
  return _mm512_maskz_unpackhi_epi64(0xFF, a, b);
}
#endif
#undef ITERLAB_INTERLEAVE
#undef ITERLAB_REGISTER

// Transposes the lanes of as many registers as each has: lane l of register r becomes lane r of
// register l.
ITERLAB_FN void transpose_lanes(__m128i*, int) {}
#if defined(CPU_CAPABILITY_AVX2) || defined(CPU_CAPABILITY_AVX512)
ITERLAB_FN void transpose_lanes(__m256i* r, int step) {
  const __m256i a = r[0], b = r[step];
  r[0] = _mm256_permute2x128_si256(a, b, 0x20);
  r[step] = _mm256_permute2x128_si256(a, b, 0x31);
}
#endif
#if defined(CPU_CAPABILITY_AVX512)
ITERLAB_FN void transpose_lanes(__m512i* r, int step) {
  const __m512i a = _mm512_maskz_shuffle_i64x2(0xFF, r[0], r[step], 0x88);  // a0 a2 b0 b2
  const __m512i b = _mm512_maskz_shuffle_i64x2(0xFF, r[0], r[step], 0xDD);  // a1 a3 b1 b3
  const __m512i c =
      _mm512_maskz_shuffle_i64x2(0xFF, r[2 * step], r[3 * step], 0x88);  // c0 c2 d0 d2
  const __m512i d =
      _mm512_maskz_shuffle_i64x2(0xFF, r[2 * step], r[3 * step], 0xDD);  // c1 c3 d1 d3
  r[0] = _mm512_maskz_shuffle_i64x2(0xFF, a, c, 0x88);
  r[step] = _mm512_maskz_shuffle_i64x2(0xFF, b, d, 0x88);
  r[2 * step] = _mm512_maskz_shuffle_i64x2(0xFF, a, c, 0xDD);
  r[3 * step] = _mm512_maskz_shuffle_i64x2(0xFF, b, d, 0xDD);
}
#endif

// Note [Transposing a block]
// In each lane, L = 16 / kWidth registers hold an L x L block. Interleaving register i with
// register i + L/2 is a perfect shuffle of the block's elements, and log2(L) of them are its
// transpose. With kGroups = 1 the block has L lines, and each lane is stored by itself (16 bytes).
// With kGroups = lanes it has L * lanes lines, and a transpose of whole lanes makes every store a
// full register.
template <class RegisterName, int kWidth, int kGroups>
struct Block {
  using Register = typename RegisterName::Type;
  static constexpr int kLane = 16 / kWidth;
  static constexpr int kLanes = sizeof(Register) / 16;
  static constexpr int kLines = kLane * kGroups;
  static constexpr int kColumns = kLane * kLanes;
  static_assert(kGroups == 1 || kGroups == kLanes);

  static void transpose(Source source, Target target) {
    Register r[kLines];
#pragma GCC unroll 16
    for (int i = 0; i < kLines; ++i) load(source.data + i * source.pitch, r[i]);
#pragma GCC unroll 4
    for (int group = 0; group < kGroups; ++group) transpose_in_lanes(r + group * kLane);
    if constexpr (kGroups == 1) {
      store_lanes(r, target);
    } else {
#pragma GCC unroll 16
      for (int i = 0; i < kLane; ++i) transpose_lanes(r + i, kLane);
#pragma GCC unroll 16
      for (int i = 0; i < kLines; ++i) store(target.data + i * target.pitch, r[i]);
    }
  }

  ITERLAB_FN static void transpose_in_lanes(Register* r) {
#pragma GCC unroll 4
    for (int stage = 1; stage < kLane; stage *= 2) {
      Register next[kLane];
#pragma GCC unroll 8
      for (int i = 0; i < kLane / 2; ++i) {
        next[2 * i] = interleave_low<kWidth>(r[i], r[i + kLane / 2]);
        next[2 * i + 1] = interleave_high<kWidth>(r[i], r[i + kLane / 2]);
      }
#pragma GCC unroll 16
      for (int i = 0; i < kLane; ++i) r[i] = next[i];
    }
  }

  ITERLAB_FN static void store_lanes(const Register* r, Target target) {
#pragma GCC unroll 16
    for (int i = 0; i < kLane; ++i) {
      char lanes[sizeof(Register)];
      store(lanes, r[i]);
#pragma GCC unroll 4
      for (int lane = 0; lane < kLanes; ++lane) {
        std::memcpy(target.data + (lane * kLane + i) * target.pitch, lanes + 16 * lane, 16);
      }
    }
  }
};

// Note [Tiles to transpose]
// Measured on Sapphire Rapids, one thread, from a 4096 x 4096 matrix (a pitch that puts every line
// in the same cache set) and a 4000 x 4000 one, each packed tile written on to a contiguous output;
// memcpy of as much: 7 to 12 GB/s.
//  * The gather alone reads at 7 to 17 GB/s, so that the writes decide. With ordinary stores any
//    tile reaches 2 to 4 GB/s, with a prefetch of the output 4 to 5, with stores past the caches 9.
//  * inner x rows: 4 bytes 32 x 128 (9.0 GB/s; 64 x 32 is 6.7 to 8.3, 128 x 64 at most 7.2), 8
//    bytes 32 x 64 (10), 2 bytes 64 x 64 (8 to 10), 1 byte 128 x 128 (4 to 8): whole cache lines on
//    the side that is written, two or more on the side that is read, 4 to 16 kB packed.
//  * Tiles walk along the rows of one range of inner first: the reads then stay in the same pages.
// For 1 and 2 bytes a block of 32-byte registers is as fast as one of 64: the loads decide.
template <int kWidth>
using SmallBlock = Block<Xmm, kWidth, 1>;
#if defined(CPU_CAPABILITY_AVX512)
template <int kWidth>  // for 8 to 15 lines of 4 bytes, 4 to 7 of 8
using MediumBlock = std::conditional_t<(kWidth < 4), SmallBlock<kWidth>, Block<Ymm, kWidth, 2>>;
template <int kWidth>
using LargeBlock =
    std::conditional_t<kWidth == 1, Block<Ymm, 1, 1>,
                       std::conditional_t<kWidth == 2, Block<Ymm, 2, 2>, Block<Zmm, kWidth, 4>>>;
#elif defined(CPU_CAPABILITY_AVX2)
template <int kWidth>
using MediumBlock = SmallBlock<kWidth>;
template <int kWidth>
using LargeBlock = std::conditional_t<kWidth == 1, Block<Ymm, 1, 1>, Block<Ymm, kWidth, 2>>;
#else
template <int kWidth>
using MediumBlock = SmallBlock<kWidth>;
template <int kWidth>
using LargeBlock = SmallBlock<kWidth>;
#endif

#endif  // __SSE2__

// Whether blocks follow each other along the source's lines or along the target's: along the side
// that is in memory, so that a cache line of it is used up before another takes its place.
enum class Follow : uint8_t { SourceLines, TargetLines };

#if defined(__SSE2__)
// A matrix of at least one block; the last block of a line or column overlaps the one before.
template <class Block, int kWidth>
void transpose_blocks(Source source, Target target, int64_t lines, int64_t columns, Follow follow) {
  const int64_t last_line = lines - Block::kLines, last_column = columns - Block::kColumns;
  const auto block_at = [&](int64_t line, int64_t column) {
    Block::transpose({source.data + line * source.pitch + column * kWidth, source.pitch},
                     {target.data + column * target.pitch + line * kWidth, target.pitch});
  };
  const auto line_end = last_line + Block::kLines, column_end = last_column + Block::kColumns;
  if (follow == Follow::SourceLines) {
    for (int64_t line = 0; line < line_end; line += Block::kLines) {
      for (int64_t column = 0; column < column_end; column += Block::kColumns) {
        block_at(std::min(line, last_line), std::min(column, last_column));
      }
    }
  } else {
    for (int64_t column = 0; column < column_end; column += Block::kColumns) {
      for (int64_t line = 0; line < line_end; line += Block::kLines) {
        block_at(std::min(line, last_line), std::min(column, last_column));
      }
    }
  }
}
#endif

// Interleaves two to four lines into contiguous memory, 16 bytes of each at a time, and returns the
// number of columns done; the last few are left, because three lines are stored with a fourth that
// the next store overwrites. For a three-channel uint8 image 10 GB/s, element by element 3.1.
template <int kWidth>
int64_t interleave_lines(Source source, char* to, int64_t lines, int64_t columns) {
  int64_t column = 0;
#if defined(ITERLAB_HAS_SHUFFLES)
  constexpr int64_t kLane = 16 / kWidth;
  const int64_t bytes = lines * kWidth;
  const char* line[4];
  for (int64_t i = 0; i < 4; ++i) line[i] = source.data + std::min(i, lines - 1) * source.pitch;
  char order[16];  // keeps `bytes` of every 4 * kWidth bytes
  for (int64_t i = 0; i < 16; ++i) {
    order[i] = static_cast<char>(i / bytes * (4 * kWidth) + i % bytes);
  }
  __m128i index, r[4];
  load(order, index);
  const int64_t step = 16 / (4 * kWidth) * bytes;  // of a store; the rest of it is overwritten
  const int64_t last = columns - kLane - (lines == 3 ? kLane / 2 : 0);
  for (; column <= last; column += kLane, to += kLane * bytes) {
    for (int i = 0; i < 4; ++i) load(line[i] + column * kWidth, r[i]);
    if (lines == 2) {
      store(to, interleave_low<kWidth>(r[0], r[1]));
      store(to + 16, interleave_high<kWidth>(r[0], r[1]));
      continue;
    }
    const __m128i even_low = interleave_low<kWidth>(r[0], r[2]);
    const __m128i even_high = interleave_high<kWidth>(r[0], r[2]);
    const __m128i odd_low = interleave_low<kWidth>(r[1], r[3]);
    const __m128i odd_high = interleave_high<kWidth>(r[1], r[3]);
    store(to, _mm_shuffle_epi8(interleave_low<kWidth>(even_low, odd_low), index));
    store(to + step, _mm_shuffle_epi8(interleave_high<kWidth>(even_low, odd_low), index));
    store(to + 2 * step, _mm_shuffle_epi8(interleave_low<kWidth>(even_high, odd_high), index));
    store(to + 3 * step, _mm_shuffle_epi8(interleave_high<kWidth>(even_high, odd_high), index));
  }
#else
  static_cast<void>(source), static_cast<void>(to), static_cast<void>(lines);
  static_cast<void>(columns);
#endif
  return column;
}

// target[column][line] = source[line][column], exactly those elements.
template <int kWidth>
void transpose(Source source, Target target, int64_t lines, int64_t columns, Follow follow) {
#if defined(__SSE2__)
  using Large = LargeBlock<kWidth>;
  using Medium = MediumBlock<kWidth>;
  using Small = SmallBlock<kWidth>;
  if (lines >= Large::kLines && columns >= Large::kColumns) {
    return transpose_blocks<Large, kWidth>(source, target, lines, columns, follow);
  }
  if (lines >= Medium::kLines && columns >= Medium::kColumns) {
    return transpose_blocks<Medium, kWidth>(source, target, lines, columns, follow);
  }
  if (lines >= Small::kLines && columns >= Small::kColumns) {
    return transpose_blocks<Small, kWidth>(source, target, lines, columns, follow);
  }
#endif
  int64_t done = 0;
  if constexpr (kWidth <= 4) {
    if (lines <= 4 && target.pitch == lines * kWidth) {
      done = interleave_lines<kWidth>(source, target.data, lines, columns);
    }
  }
  transpose_elements<kWidth>({source.data + done * kWidth, source.pitch},
                             {target.data + done * target.pitch, target.pitch}, lines,
                             columns - done);
}

// Fewer lines than this on the packed side are strided runs, which are packed one by one.
template <int kWidth>
inline constexpr int64_t kFewLines = 16 / kWidth;

template <int kWidth>
void gather_transposed(const char* strided, int64_t inner_stride, int64_t row_stride, char* packed,
                       int64_t inner, int64_t rows) {
  if (row_stride != kWidth || inner == 1 || rows < kFewLines<kWidth>) {
    return gather_strided<kWidth>(strided, inner_stride, row_stride, packed, inner, rows);
  }
  transpose<kWidth>({strided, inner_stride}, {packed, inner * kWidth}, inner, rows,
                    Follow::SourceLines);
}

template <int kWidth>
void scatter_transposed(const char* packed, char* strided, int64_t inner_stride, int64_t row_stride,
                        int64_t inner, int64_t rows) {
  if (row_stride != kWidth || inner == 1 || rows == 1) {
    return scatter_strided<kWidth>(packed, strided, inner_stride, row_stride, inner, rows);
  }
  if (inner < kFewLines<kWidth>) {
    for (int64_t i = 0; i < inner; ++i) {
      pack(packed + i * kWidth, {kWidth, inner * kWidth, rows}, 0, 1, strided + i * inner_stride);
    }
    return;
  }
  // All lines of the tile are asked for at once: 64 x 64 float32 go from 6 to 10 GB/s, 128 x 32
  // from 3 to 7.
  for (int64_t i = 0; i < inner; ++i) {
    for (int64_t byte = 0; byte < rows * kWidth; byte += 64) {
      __builtin_prefetch(strided + i * inner_stride + byte, 1);
    }
  }
  transpose<kWidth>({packed, inner * kWidth}, {strided, inner_stride}, rows, inner,
                    Follow::TargetLines);
}

}  // namespace CPU_CAPABILITY
}  // namespace iterlab::cpu
