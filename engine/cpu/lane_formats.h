// Vectors of float lanes, read from and written to memory in another dtype.
#pragma once

#include "engine/cpu/cast.h"
#include "engine/cpu/vec_math.h"

namespace iterlab::cpu {
inline namespace CPU_CAPABILITY {

using FloatVector = Vector<float>;
inline constexpr int64_t kFloatLanes = FloatVector::size();

// Note [Lane formats]
// The same values as the casts of cast.h give, a register at a time, without a buffer in between:
// what a formula in float reads as bfloat16 and writes as bfloat16 passes through the first-level
// cache once. load_lanes and store_lanes touch `lanes` elements, at most kFloatLanes; the other
// lanes are zero.
enum class Store : uint8_t { Cached, Streamed };  // Streamed: past the caches, whole vectors only

#if defined(CPU_CAPABILITY_AVX512)

ITERLAB_FN __mmask16 first_of(int64_t lanes) {
  return static_cast<__mmask16>(lanes >= kFloatLanes ? 0xFFFFu
                                : lanes <= 0         ? 0u
                                                     : (1u << lanes) - 1);
}

template <class T>
ITERLAB_FN FloatVector load_lanes(const char* data, int64_t lanes) {
  const __mmask16 mask = first_of(lanes);
  if constexpr (std::is_same_v<T, float>) {
    return _mm512_maskz_loadu_ps(mask, data);
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    const __m512i bits = _mm512_maskz_cvtepu16_epi32(mask, _mm256_maskz_loadu_epi16(mask, data));
    return _mm512_castsi512_ps(_mm512_maskz_slli_epi32(mask, bits, 16));
  } else if constexpr (std::is_same_v<T, Half>) {
    return _mm512_maskz_cvtph_ps(mask, _mm256_maskz_loadu_epi16(mask, data));
  } else if constexpr (std::is_same_v<T, int32_t>) {
    return _mm512_maskz_cvtepi32_ps(mask, _mm512_maskz_loadu_epi32(mask, data));
  } else {
    const __m128i bytes = _mm_maskz_loadu_epi8(mask, data);
    return _mm512_maskz_cvtepi32_ps(mask, std::is_same_v<T, int8_t>
                                              ? _mm512_maskz_cvtepi8_epi32(mask, bytes)
                                              : _mm512_maskz_cvtepu8_epi32(mask, bytes));
  }
}

// 512-bit operations are spelled with a full mask for GCC bug 105593, see cast.h.
ITERLAB_FN __m256i to_bfloat16(__m512 value) {
  constexpr __mmask16 kAll = 0xFFFF;
  const __m512i bits = _mm512_castps_si512(value);
  const __m512i odd =
      _mm512_and_si512(_mm512_maskz_srli_epi32(kAll, bits, 16), _mm512_set1_epi32(1));
  const __m512i sum = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7FFF)));
  const __m512i rounded = _mm512_maskz_srli_epi32(kAll, sum, 16);
  const __mmask16 nan = _mm512_cmp_ps_mask(value, value, _CMP_UNORD_Q);
  return _mm512_maskz_cvtepi32_epi16(
      kAll, _mm512_mask_blend_epi32(nan, rounded, _mm512_set1_epi32(0x7FC0)));
}

template <class T>
ITERLAB_FN void store_lanes(char* data, const FloatVector& value, int64_t lanes, Store store) {
  const __mmask16 mask = first_of(lanes);
  const bool whole = lanes >= kFloatLanes;  // a masked store is dear on some processors
  if constexpr (std::is_same_v<T, float>) {
    if (!whole) return _mm512_mask_storeu_ps(data, mask, value);
    if (store == Store::Streamed) return _mm512_stream_ps(reinterpret_cast<float*>(data), value);
    _mm512_storeu_ps(data, value);
  } else if constexpr (std::is_same_v<T, bool>) {
    const __mmask16 is_true = _mm512_cmp_ps_mask(value, _mm512_setzero_ps(), _CMP_NEQ_UQ);
    const __m128i bytes = _mm_maskz_set1_epi8(is_true, 1);
    if (!whole) return _mm_mask_storeu_epi8(data, mask, bytes);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(data), bytes);
  } else {
    __m256i bits;
    if constexpr (std::is_same_v<T, Half>) {
      bits = _mm512_maskz_cvtps_ph(0xFFFF, value, _MM_FROUND_TO_NEAREST_INT);
    } else {
      bits = to_bfloat16(value);
    }
    if (!whole) return _mm256_mask_storeu_epi16(data, mask, bits);
    if (store == Store::Streamed) {
      return _mm256_stream_si256(reinterpret_cast<__m256i*>(data), bits);
    }
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(data), bits);
  }
}

#else

#if defined(CPU_CAPABILITY_AVX2)

template <class T>
ITERLAB_FN FloatVector load_vector(const char* data) {
  if constexpr (std::is_same_v<T, float>) {
    return _mm256_loadu_ps(reinterpret_cast<const float*>(data));
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(data));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
  } else if constexpr (std::is_same_v<T, Half>) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(data)));
  } else if constexpr (std::is_same_v<T, int32_t>) {
    return _mm256_cvtepi32_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(data)));
  } else {
    const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(data));
    return _mm256_cvtepi32_ps(std::is_same_v<T, int8_t> ? _mm256_cvtepi8_epi32(bytes)
                                                        : _mm256_cvtepu8_epi32(bytes));
  }
}

// The low halves of eight lanes, in order.
ITERLAB_FN __m128i pack_lanes(__m256i lanes) {
  return _mm_packus_epi32(_mm256_castsi256_si128(lanes), _mm256_extracti128_si256(lanes, 1));
}

ITERLAB_FN __m128i to_bfloat16(__m256 value) {
  const __m256i bits = _mm256_castps_si256(value);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  const __m256i sum = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7FFF)));
  const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(value, value, _CMP_UNORD_Q));
  return pack_lanes(_mm256_blendv_epi8(_mm256_srli_epi32(sum, 16), _mm256_set1_epi32(0x7FC0), nan));
}

template <class T>
ITERLAB_FN void store_vector(char* data, const FloatVector& value, Store store) {
  if constexpr (std::is_same_v<T, float>) {
    float* const to = reinterpret_cast<float*>(data);
    if (store == Store::Streamed) return _mm256_stream_ps(to, value);
    _mm256_storeu_ps(to, value);
  } else if constexpr (std::is_same_v<T, bool>) {
    const __m256 is_true = _mm256_cmp_ps(value, _mm256_setzero_ps(), _CMP_NEQ_UQ);
    const __m128i ones = pack_lanes(_mm256_srli_epi32(_mm256_castps_si256(is_true), 31));
    _mm_storel_epi64(reinterpret_cast<__m128i*>(data), _mm_packus_epi16(ones, ones));
  } else {
    __m128i bits;
    if constexpr (std::is_same_v<T, Half>) {
      bits = _mm256_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT);
    } else {
      bits = to_bfloat16(value);
    }
    __m128i* const to = reinterpret_cast<__m128i*>(data);
    if (store == Store::Streamed) return _mm_stream_si128(to, bits);
    _mm_storeu_si128(to, bits);
  }
}

#else

// The baseline: as the casts, through a register's worth of memory.
template <class T>
ITERLAB_FN FloatVector load_vector(const char* data) {
  alignas(64) char lanes[sizeof(FloatVector)];
  if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
    widen<T>(data, lanes, kFloatLanes);
  } else {
    cast_real<T, float>(data, lanes, kFloatLanes);
  }
  return FloatVector::loadu(lanes);
}

template <class T>
ITERLAB_FN void store_vector(char* data, const FloatVector& value, Store /*store*/) {
  alignas(64) char lanes[sizeof(FloatVector)];
  value.store(lanes);
  if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
    narrow<T>(lanes, data, kFloatLanes);
  } else {
    cast_real<float, T>(lanes, data, kFloatLanes);
  }
}

#endif

// Out of line: GCC 12 copies a part of an array that it knows with a string instruction, which
// takes longer to start than the copy does.
[[gnu::noinline]] inline void copy_part(char* to, const char* from, int64_t bytes) {
  std::memcpy(to, from, static_cast<size_t>(bytes));
}

// A part of a vector is padded, so that the same instructions see every element.
template <class T>
ITERLAB_FN FloatVector load_lanes(const char* data, int64_t lanes) {
  if (lanes >= kFloatLanes) return load_vector<T>(data);
  char padded[kFloatLanes * sizeof(T)] = {};
  if (lanes > 0) copy_part(padded, data, lanes * static_cast<int64_t>(sizeof(T)));
  return load_vector<T>(padded);
}

template <class T>
ITERLAB_FN void store_lanes(char* data, const FloatVector& value, int64_t lanes, Store store) {
  if (lanes >= kFloatLanes) return store_vector<T>(data, value, store);
  char padded[kFloatLanes * sizeof(T)];
  store_vector<T>(padded, value, Store::Cached);
  if (lanes > 0) copy_part(data, padded, lanes * static_cast<int64_t>(sizeof(T)));
}

#endif

// So many vectors are converted for one look at the dtype.
inline constexpr int kBlockVectors = 2;
inline constexpr int64_t kBlockLanes = kBlockVectors * kFloatLanes;
using FloatBlock = FloatVector[kBlockVectors];

template <class T>
ITERLAB_FN void load_block_of(const char* data, int64_t lanes, FloatBlock& block) {
#pragma GCC unroll 4
  for (int64_t v = 0; v < kBlockVectors; ++v) {
    block[v] = load_lanes<T>(data + v * kFloatLanes * static_cast<int64_t>(sizeof(T)),
                             lanes - v * kFloatLanes);
  }
}

ITERLAB_FN void load_block(DType dtype, const char* data, int64_t lanes, FloatBlock& block) {
  switch (dtype) {
    case DType::BFloat16:
      return load_block_of<BFloat16>(data, lanes, block);
    case DType::Half:
      return load_block_of<Half>(data, lanes, block);
    case DType::Char:
      return load_block_of<int8_t>(data, lanes, block);
    case DType::Byte:
      return load_block_of<uint8_t>(data, lanes, block);
    case DType::Int:
      return load_block_of<int32_t>(data, lanes, block);
    default:
      return load_block_of<float>(data, lanes, block);
  }
}

template <class T>
ITERLAB_FN void store_block_of(char* data, const FloatBlock& block, int64_t lanes, Store store) {
#pragma GCC unroll 4
  for (int64_t v = 0; v < kBlockVectors; ++v) {
    store_lanes<T>(data + v * kFloatLanes * static_cast<int64_t>(sizeof(T)), block[v],
                   lanes - v * kFloatLanes, store);
  }
}

ITERLAB_FN void store_block(DType dtype, char* data, const FloatBlock& block, int64_t lanes,
                            Store store) {
  switch (dtype) {
    case DType::BFloat16:
      return store_block_of<BFloat16>(data, block, lanes, store);
    case DType::Half:
      return store_block_of<Half>(data, block, lanes, store);
    case DType::Bool:
      return store_block_of<bool>(data, block, lanes, store);
    default:
      return store_block_of<float>(data, block, lanes, store);
  }
}

}  // namespace CPU_CAPABILITY
}  // namespace iterlab::cpu
