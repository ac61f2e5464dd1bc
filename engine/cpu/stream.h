// Writes without a strided source: copies of one element, and copies past the caches.
#pragma once

#include "iterlab/config.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace iterlab::cpu {
inline namespace CPU_CAPABILITY {

// Note [Streams]
// The hardware prefetches one stream in each page, and one alone may reach half of the memory's
// rate (8 of 16 GB/s on a Xeon). Long runs are therefore read, and written past the caches, at
// kStreams places in turn that are far from each other. Each must be a run of its own of kStreamRun
// bytes or more: four places that are a page apart start a new stream in every page (19 of 32 GB/s
// on an EPYC of 2024).
inline constexpr int64_t kStreams = 4;
inline constexpr int64_t kStreamRun = 64 * 1024;

// Writes `count` copies of the `kWidth` bytes at `element`.
template <int kWidth>
void fill(const char* element, char* packed, int64_t count) {
  if constexpr (kWidth == 1) {
    std::memset(packed, *element, static_cast<size_t>(count));
  } else {
    // A constant pattern of 64 bytes: one vector register on AVX-512, four on the baseline.
    char pattern[64];
    for (int i = 0; i < 64; i += kWidth) std::memcpy(pattern + i, element, kWidth);
    const int64_t bytes = count * kWidth;
    int64_t i = 0;
    for (; i + 64 <= bytes; i += 64) std::memcpy(packed + i, pattern, 64);
    for (; i < bytes; i += kWidth) std::memcpy(packed + i, element, kWidth);
  }
}

// One store that bypasses the caches, as wide as the capability has; the target is aligned to
// kStreamBytes.
#if defined(CPU_CAPABILITY_AVX512)
inline constexpr int64_t kStreamBytes = 64;
ITERLAB_FN void stream_vector(const char* from, char* to) {
  _mm512_stream_si512(reinterpret_cast<__m512i*>(to), _mm512_loadu_si512(from));
}
#elif defined(CPU_CAPABILITY_AVX2)
inline constexpr int64_t kStreamBytes = 32;
ITERLAB_FN void stream_vector(const char* from, char* to) {
  _mm256_stream_si256(reinterpret_cast<__m256i*>(to),
                      _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
}
#elif defined(__SSE2__)
inline constexpr int64_t kStreamBytes = 16;
ITERLAB_FN void stream_vector(const char* from, char* to) {
  _mm_stream_si128(reinterpret_cast<__m128i*>(to),
                   _mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
}
#endif

// Copies `rows` runs of `bytes` bytes from packed memory, without reading the target's lines first.
// The head of a run is copied up to a whole cache line: a line that is only partly streamed costs a
// read-modify-write in memory. The stores are ordered by stream_fence: a fence for each run of 128
// to 256 bytes brought 9 GB/s down to 1.
inline void stream_rows(const char* packed, char* to, int64_t row_stride, int64_t bytes,
                        int64_t rows) {
  for (int64_t r = 0; r < rows; ++r, packed += bytes, to += row_stride) {
#if defined(__SSE2__)
    const int64_t misaligned = static_cast<int64_t>(reinterpret_cast<uintptr_t>(to) % 64);
    const int64_t head = std::min((64 - misaligned) % 64, bytes);
    const int64_t body = (bytes - head) / 64 * 64;
    std::memcpy(to, packed, static_cast<size_t>(head));
    for (int64_t i = head; i < head + body; i += 64) {
      for (int64_t part = 0; part < 64; part += kStreamBytes) {
        stream_vector(packed + i + part, to + i + part);
      }
    }
    const int64_t tail = head + body;
    std::memcpy(to + tail, packed + tail, static_cast<size_t>(bytes - tail));
#else
    std::memcpy(to, packed, static_cast<size_t>(bytes));
#endif
  }
}

// Makes streamed stores visible to other threads, as ordinary ones are.
inline void stream_fence() {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

}  // namespace CPU_CAPABILITY
}  // namespace iterlab::cpu
