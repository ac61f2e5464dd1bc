// Gather and scatter of tiles whose inner dim is contiguous (rows) or has any stride.
#pragma once

#include "engine/cpu/permute.h"
#include "engine/cpu/stream.h"
#include "iterlab/config.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

namespace iterlab::cpu {
inline namespace CPU_CAPABILITY {

// Copies `count` runs of kBytes bytes.
template <int64_t kBytes>
void copy_runs_of(const char* from, int64_t from_stride, char* to, int64_t to_stride,
                  int64_t count) {
#pragma GCC unroll 4
  for (int64_t run = 0; run < count; ++run) {
    std::memcpy(to + run * to_stride, from + run * from_stride, kBytes);
  }
}

// Copies `count` runs of kHalf to 2 * kHalf bytes, each as two overlapping moves of kHalf.
template <int64_t kHalf>
void copy_runs_up_to_twice(const char* from, int64_t from_stride, char* to, int64_t to_stride,
                           int64_t bytes, int64_t count) {
  const int64_t second = bytes - kHalf;
#pragma GCC unroll 2
  for (int64_t run = 0; run < count; ++run) {
    const char* source = from + run * from_stride;
    char* target = to + run * to_stride;
    std::memcpy(target, source, kHalf);
    std::memcpy(target + second, source + second, kHalf);
  }
}

// Copies `count` runs of more than 64 bytes, each in moves of 64 of which the last two overlap.
inline void copy_long_runs(const char* from, int64_t from_stride, char* to, int64_t to_stride,
                           int64_t bytes, int64_t count) {
  constexpr int64_t kCallMemcpy = 1024;  // from here a call per run costs less than it gains
  const int64_t last = bytes - 64;
  for (int64_t run = 0; run < count; ++run) {
    const char* source = from + run * from_stride;
    char* target = to + run * to_stride;
    if (bytes >= kCallMemcpy) {
      std::memcpy(target, source, static_cast<size_t>(bytes));
      continue;
    }
    for (int64_t i = 0; i < last; i += 64) std::memcpy(target + i, source + i, 64);
    std::memcpy(target + last, source + last, 64);
  }
}

// Copies `count` runs of `bytes` bytes; touches those bytes only.
inline void copy_runs(const char* from, int64_t from_stride, char* to, int64_t to_stride,
                      int64_t bytes, int64_t count) {
  switch (bytes) {
    case 1:
      return copy_runs_of<1>(from, from_stride, to, to_stride, count);
    case 2:
      return copy_runs_of<2>(from, from_stride, to, to_stride, count);
    case 4:
      return copy_runs_of<4>(from, from_stride, to, to_stride, count);
    case 8:
      return copy_runs_of<8>(from, from_stride, to, to_stride, count);
    case 16:
      return copy_runs_of<16>(from, from_stride, to, to_stride, count);
    default:
      break;
  }
  if (bytes < 4) return copy_runs_up_to_twice<2>(from, from_stride, to, to_stride, bytes, count);
  if (bytes < 8) return copy_runs_up_to_twice<4>(from, from_stride, to, to_stride, bytes, count);
  if (bytes < 16) return copy_runs_up_to_twice<8>(from, from_stride, to, to_stride, bytes, count);
  if (bytes <= 32) return copy_runs_up_to_twice<16>(from, from_stride, to, to_stride, bytes, count);
  if (bytes <= 64) return copy_runs_up_to_twice<32>(from, from_stride, to, to_stride, bytes, count);
  copy_long_runs(from, from_stride, to, to_stride, bytes, count);
}

// Packs `rows` sequences of runs, `row_stride` bytes apart. Inlined, for passing Runs through
// memory costs more than a small tile.
ITERLAB_FN void pack(const char* from, Runs runs, int64_t row_stride, int64_t rows, char* to) {
#if defined(ITERLAB_HAS_SHUFFLES)
  if (row_stride >= 0 && runs.stride >= 0) {
    const char* end = from + (rows - 1) * row_stride + (runs.count - 1) * runs.stride + runs.bytes;
    if (try_pack_shuffled(from, end, runs, row_stride, rows, to)) return;
  }
#endif
  for (int64_t row = 0; row < rows; ++row) {
    copy_runs(from + row * row_stride, runs.stride, to + row * runs.count * runs.bytes, runs.bytes,
              runs.bytes, runs.count);
  }
}

// Packs `rows` times the same row: each copy doubles what is there.
inline void repeat_row(const char* row, char* packed, int64_t bytes, int64_t rows) {
  std::memcpy(packed, row, static_cast<size_t>(bytes));
  const int64_t total = rows * bytes;
  for (int64_t done = bytes; done < total; done += std::min(done, total - done)) {
    std::memcpy(packed + done, packed, static_cast<size_t>(std::min(done, total - done)));
  }
}

template <int kWidth>
void gather_rows(const char* strided, int64_t /*inner_stride*/, int64_t row_stride, char* packed,
                 int64_t inner, int64_t rows) {
  if (inner <= 0 || rows <= 0) return;
  const int64_t bytes = inner * kWidth;
  if (row_stride == bytes || rows == 1) {
    std::memcpy(packed, strided, static_cast<size_t>(rows * bytes));
  } else if (row_stride == 0) {
    repeat_row(strided, packed, bytes, rows);
  } else {
    pack(strided, {bytes, row_stride, rows}, 0, 1, packed);
  }
}

template <int kWidth>
void scatter_rows(const char* packed, char* strided, int64_t /*inner_stride*/, int64_t row_stride,
                  int64_t inner, int64_t rows) {
  if (inner <= 0 || rows <= 0) return;
  const int64_t bytes = inner * kWidth;
  if (row_stride == bytes || rows == 1) {
    std::memcpy(strided, packed, static_cast<size_t>(rows * bytes));
  } else {
    copy_runs(packed, bytes, strided, row_stride, bytes, rows);
  }
}

template <int kWidth>
void gather_strided(const char* strided, int64_t inner_stride, int64_t row_stride, char* packed,
                    int64_t inner, int64_t rows) {
  if (inner <= 0 || rows <= 0) return;
  if (inner == 1) {
    std::swap(inner, rows);
    std::swap(inner_stride, row_stride);
  }
  if (rows > 1 && row_stride == inner * inner_stride) {
    inner *= rows;
    rows = 1;
  }
  if (inner_stride == kWidth) {
    gather_rows<kWidth>(strided, inner_stride, row_stride, packed, inner, rows);
  } else if (inner_stride == 0) {
    for (int64_t row = 0; row < rows; ++row) {
      fill<kWidth>(strided + row * row_stride, packed + row * inner * kWidth, inner);
    }
  } else {
    pack(strided, {kWidth, inner_stride, inner}, row_stride, rows, packed);
  }
}

template <int kWidth>
void scatter_strided(const char* packed, char* strided, int64_t inner_stride, int64_t row_stride,
                     int64_t inner, int64_t rows) {
  if (inner <= 0 || rows <= 0) return;
  if (inner == 1) {
    std::swap(inner, rows);
    std::swap(inner_stride, row_stride);
  }
  for (int64_t row = 0; row < rows; ++row) {
    copy_runs_of<kWidth>(packed + row * inner * kWidth, kWidth, strided + row * row_stride,
                         inner_stride, inner);
  }
}

}  // namespace CPU_CAPABILITY
}  // namespace iterlab::cpu
