// Cast-load and cast-store: groups of elements of any storage type, at any alignment, to and from
// registers of the compute type.
#pragma once

#include "engine/cuda/arguments.h"
#include "engine/cuda/convert.cuh"
#include "engine/cuda/launch_order.cuh"

#include <cstring>

namespace iterlab::cuda {

// Note [Hot storage types]
// A switch over the storage types stands before every vector load and store. It is uniform over the
// grid and costs nothing (DESIGN, idea 2), but each case is code in every kernel: with all 21, a
// binary kernel has 60 kB. So the pairs that calls are made of are cases of the switch, and the
// others share one function for each compute type, which goes element by element.
using TypeMask = uint32_t;
template <class... S>
inline constexpr TypeMask types = ((TypeMask{1} << type_index(dtype_of<S>)) | ... | 0);

// Of an input that takes part in promotion.
template <class T>
inline constexpr TypeMask hot_inputs = types<T>;
template <>
inline constexpr TypeMask hot_inputs<float> =
    types<float, Half, BFloat16, int8_t, uint8_t, int32_t>;
template <>
inline constexpr TypeMask hot_inputs<double> = types<double, float>;
template <>
inline constexpr TypeMask hot_inputs<int64_t> = types<int64_t, int32_t>;

// Of an output whose values have type T.
template <class T>
inline constexpr TypeMask hot_outputs = types<T>;
template <>
inline constexpr TypeMask hot_outputs<float> = types<float, Half, BFloat16>;

// Of inputs of several types that pass through tiles.
template <class T>
inline constexpr TypeMask tile_inputs = types<T>;
template <>
inline constexpr TypeMask tile_inputs<float> = types<float, Half, BFloat16>;
template <>
inline constexpr TypeMask tile_inputs<double> = types<double, float>;
template <>
inline constexpr TypeMask tile_inputs<int64_t> = types<int64_t, int32_t>;
template <class T, class In>
inline constexpr bool mixes_types = std::is_same_v<In, T> && tile_inputs<T> != types<T>;

// Calls fn(S{}) with the type of this TypeIndex, if it is one of the mask; false if not.
template <TypeMask mask, class Fn>
__device__ __forceinline__ bool with_type_of(int type, const Fn& fn) {
  switch (type) {
#define ITERLAB_CASE(S, name, text)         \
  case type_index(DType::name):             \
    if constexpr ((mask & types<S>) != 0) { \
      fn(S{});                              \
      return true;                          \
    }                                       \
    break;
    ITERLAB_FORALL_STORAGE_TYPES(ITERLAB_CASE)
#undef ITERLAB_CASE
  }
  return false;
}

// Of a conversion: what real data comes in.
inline constexpr TypeMask kAllHot =
    types<bool, uint8_t, int8_t, int16_t, int32_t, int64_t, float, double, Half, BFloat16>;

// One element stored as S.
template <class T, class S>
__device__ __forceinline__ T load_as(const char* data) {
  if constexpr (std::is_same_v<S, bool>) {
    return convert<T>(*data != 0);
  } else {
    return convert<T>(*reinterpret_cast<const S*>(data));
  }
}

// One element of any type.
template <class T>
__device__ __noinline__ T load_element(const char* data, int type) {
  switch (type) {
#define ITERLAB_CASE(S, name, text) \
  case type_index(DType::name):     \
    return load_as<T, S>(data);
    ITERLAB_FORALL_STORAGE_TYPES(ITERLAB_CASE)
#undef ITERLAB_CASE
    default:
      return T(0);
  }
}

template <class T>
__device__ __noinline__ void store_element(char* data, int type, T value) {
  switch (type) {
#define ITERLAB_CASE(S, name, text)                  \
  case type_index(DType::name):                      \
    *reinterpret_cast<S*>(data) = convert<S>(value); \
    break;
    ITERLAB_FORALL_STORAGE_TYPES(ITERLAB_CASE)
#undef ITERLAB_CASE
    default:
      break;
  }
}

// Through the dtype of a type and back.
template <class T>
__device__ __noinline__ T round_through(T x, int type) {
  alignas(16) char rounded[16];
  store_element<T>(rounded, type, x);
  return load_element<T>(rounded, type);
}

// A group as it is passed to functions and returned: in registers.
template <class T, int V>
struct Group {
  T lane[V];
};

// Elements [first, last) of a group of any type and stride; the others become 0. `data` is where
// element 0 would be.
template <class T, int V>
__device__ __noinline__ Group<T, V> load_each(const char* data, int64_t stride, int type, int first,
                                              int last) {
  Group<T, V> group;
#pragma unroll 1
  for (int i = 0; i < V; ++i) {
    group.lane[i] = i >= first && i < last ? load_element<T>(data + i * stride, type) : T(0);
  }
  return group;
}

template <class T, int V>
__device__ __noinline__ void store_each(char* data, int64_t stride, int type, int first, int last,
                                        Group<T, V> group) {
#pragma unroll 1
  for (int i = first; i < last; ++i) store_element<T>(data + i * stride, type, group.lane[i]);
}

template <int bytes>
struct Words {
  static_assert(bytes % 4 == 0);
  uint32_t word[bytes / 4];
};

// The widest access that a group of so many bytes allows.
constexpr int access_bytes(int bytes) { return bytes >= 16 ? 16 : bytes; }

template <int bytes>
__device__ __forceinline__ void load_aligned(const char* data, uint32_t* word) {
  if constexpr (bytes == 16) {
    const uint4 x = *reinterpret_cast<const uint4*>(data);
    word[0] = x.x, word[1] = x.y, word[2] = x.z, word[3] = x.w;
  } else if constexpr (bytes == 8) {
    const uint2 x = *reinterpret_cast<const uint2*>(data);
    word[0] = x.x, word[1] = x.y;
  } else {
    static_assert(bytes == 4);
    word[0] = *reinterpret_cast<const uint32_t*>(data);
  }
}

// Note [Misaligned groups]
// A group that does not start on a boundary of its accesses is read as the aligned accesses that
// cover it, one more than it has itself (a neighbour thread's, so from L1), and shifted into place:
// by words with two selects, by bytes with a funnel shift. An aligned access that holds a byte of
// the operand stays within its page, so nothing faults. About 27 instructions for 32 bytes, where 8
// scalar loads 32 bytes apart would occupy L1 eight times as long.

// The words that begin `offset` bytes into `from`, which was read by accesses of `step` bytes.
template <int step, int count>
__device__ __forceinline__ void shift_words(const uint32_t (&from)[count + step / 4],
                                            uint32_t offset, uint32_t (&to)[count]) {
  uint32_t word[count + step / 4];
#pragma unroll
  for (int i = 0; i < count + step / 4; ++i) word[i] = from[i];
  if constexpr (step == 16) {
#pragma unroll
    for (int i = 0; i < count + 2; ++i) word[i] = (offset & 8) != 0 ? word[i + 2] : word[i];
  }
  if constexpr (step >= 8) {
#pragma unroll
    for (int i = 0; i < count + 1; ++i) word[i] = (offset & 4) != 0 ? word[i + 1] : word[i];
  }
  const uint32_t shift = (offset & 3) * 8;
#pragma unroll
  for (int i = 0; i < count; ++i) to[i] = __funnelshift_r(word[i], word[i + 1], shift);
}

// That many bytes from `data`, wherever it is.
template <int bytes>
__device__ __forceinline__ Words<bytes> load_words(const char* data) {
  constexpr int step = access_bytes(bytes), count = bytes / 4;
  Words<bytes> out;
  const uint32_t offset = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(data)) & (step - 1);
  if (offset == 0) {
#pragma unroll
    for (int i = 0; i < bytes; i += step) load_aligned<step>(data + i, out.word + i / 4);
  } else {
    uint32_t word[count + step / 4];
    const char* const base = data - offset;
#pragma unroll
    for (int i = 0; i < bytes + step; i += step) load_aligned<step>(base + i, word + i / 4);
    shift_words<step>(word, offset, out.word);
  }
  return out;
}

// Whether a group of V elements of that many bytes fills words.
constexpr bool fills_words(int width, int size) { return width * size % 4 == 0; }

constexpr int widest(TypeMask hot) {
  int size = 1;
#define ITERLAB_WIDEST(S, name, text) \
  if ((hot & types<S>) != 0 && static_cast<int>(sizeof(S)) > size) size = sizeof(S);
  ITERLAB_FORALL_STORAGE_TYPES(ITERLAB_WIDEST)
#undef ITERLAB_WIDEST
  return size;
}

constexpr bool has_size(TypeMask hot, int size) {
  bool found = false;
#define ITERLAB_FIND(S, name, text) \
  found = found || ((hot & types<S>) != 0 && static_cast<int>(sizeof(S)) == size);
  ITERLAB_FORALL_STORAGE_TYPES(ITERLAB_FIND)
#undef ITERLAB_FIND
  return found;
}

// Note [Load, then convert]
// Threads issue in order, so a conversion that stood beside its load would hold back the loads of
// the operands after it. Groups are loaded by element size into raw words first, for all operands,
// and converted by type later.
template <TypeMask hot, int V>
struct RawGroup {
  static constexpr int kWords = widest(hot) < 4 ? 1 : widest(hot) / 4;  // of an element, at most
  uint32_t word[V * kWords];
};

// An element among words in registers.
template <class T, class S>
__device__ __forceinline__ T convert_bytes(const char* bytes) {
  if constexpr (std::is_same_v<S, bool>) {
    return convert<T>(*bytes != 0);
  } else {
    S stored;
    std::memcpy(&stored, bytes, sizeof(S));
    return convert<T>(stored);
  }
}

// Whether groups of that type have a case in the switches. The mask is a constant.
template <TypeMask hot>
__device__ __forceinline__ bool is_hot(int type) {
  return (hot >> type & 1u) != 0;
}

// A whole group at unit stride.
template <TypeMask hot, int V>
__device__ __forceinline__ void load_raw(const char* data, int size, RawGroup<hot, V>& raw) {
  const auto load = [&](auto bytes) {
    constexpr int kSize = decltype(bytes)::value;
    if constexpr (has_size(hot, kSize) && fills_words(V, kSize)) {
      const Words<V * kSize> words = load_words<V * kSize>(data);
#pragma unroll
      for (int i = 0; i < V * kSize / 4; ++i) raw.word[i] = words.word[i];
    }
  };
  switch (size) {
    case 1:
      return load(std::integral_constant<int, 1>{});
    case 2:
      return load(std::integral_constant<int, 2>{});
    case 4:
      return load(std::integral_constant<int, 4>{});
    case 8:
      return load(std::integral_constant<int, 8>{});
    default:
      return load(std::integral_constant<int, 16>{});
  }
}

template <TypeMask hot, class T, int V>
__device__ __forceinline__ void convert_raw(const RawGroup<hot, V>& raw, int type, T (&group)[V]) {
  switch (type) {
#define ITERLAB_CASE(S, name, text)                                                   \
  case type_index(DType::name):                                                       \
    if constexpr ((hot & types<S>) != 0 && fills_words(V, sizeof(S))) {               \
      _Pragma("unroll") for (int i = 0; i < V; ++i) group[i] = convert_bytes<T, S>(   \
          reinterpret_cast<const char*>(raw.word) + i * static_cast<int>(sizeof(S))); \
    }                                                                                 \
    break;
    ITERLAB_FORALL_STORAGE_TYPES(ITERLAB_CASE)
#undef ITERLAB_CASE
  }
}

// Elements at any offsets, in bytes.
template <TypeMask hot, int V>
__device__ __forceinline__ void gather_raw(const char* data, const int32_t (&offsets)[V], int size,
                                           RawGroup<hot, V>& raw) {
  const auto gather = [&](auto word) {
    using Word = decltype(word);
    if constexpr (has_size(hot, sizeof(Word))) {
#pragma unroll
      for (int i = 0; i < V; ++i) {
        const Word x = *reinterpret_cast<const Word*>(data + offsets[i]);
        uint32_t* const to = raw.word + i * RawGroup<hot, V>::kWords;
        if constexpr (sizeof(Word) <= 4) {
          to[0] = x;
        } else {
          std::memcpy(to, &x, sizeof(Word));
        }
      }
    }
  };
  switch (size) {
    case 1:
      return gather(uint8_t{});
    case 2:
      return gather(uint16_t{});
    case 4:
      return gather(uint32_t{});
    case 8:
      return gather(uint64_t{});
    default:
      return gather(ulonglong2{});
  }
}

template <TypeMask hot, class T, int V>
__device__ __forceinline__ void convert_gathered(const RawGroup<hot, V>& raw, int type,
                                                 T (&group)[V]) {
  switch (type) {
#define ITERLAB_CASE(S, name, text)                                                 \
  case type_index(DType::name):                                                     \
    if constexpr ((hot & types<S>) != 0) {                                          \
      _Pragma("unroll") for (int i = 0; i < V; ++i) group[i] = convert_bytes<T, S>( \
          reinterpret_cast<const char*>(raw.word + i * RawGroup<hot, V>::kWords));  \
    }                                                                               \
    break;
    ITERLAB_FORALL_STORAGE_TYPES(ITERLAB_CASE)
#undef ITERLAB_CASE
  }
}

// V contiguous elements of type S, at a boundary of their accesses.
template <class S, int V>
__device__ __forceinline__ void store_aligned(char* data, const S (&stored)[V]) {
  constexpr int bytes = V * static_cast<int>(sizeof(S)), step = access_bytes(bytes);
  uint32_t word[bytes / 4];
  std::memcpy(word, stored, sizeof(stored));
#pragma unroll
  for (int i = 0; i < bytes / 4; i += step / 4) {
    if constexpr (step == 16) {
      *reinterpret_cast<uint4*>(data + 4 * i) =
          make_uint4(word[i], word[i + 1], word[i + 2], word[i + 3]);
    } else if constexpr (step == 8) {
      *reinterpret_cast<uint2*>(data + 4 * i) = make_uint2(word[i], word[i + 1]);
    } else {
      *reinterpret_cast<uint32_t*>(data + 4 * i) = word[i];
    }
  }
}

// V contiguous elements of type S. `aligned`: known to be at a boundary of their accesses.
template <class S, class T, int V>
__device__ __forceinline__ void store_contiguous(char* data, const T (&group)[V],
                                                 bool aligned = false) {
  constexpr int step = access_bytes(V * static_cast<int>(sizeof(S)));
  S stored[V];
#pragma unroll
  for (int i = 0; i < V; ++i) stored[i] = convert<S>(group[i]);
  if (aligned || (reinterpret_cast<uintptr_t>(data) & (step - 1)) == 0) {
    store_aligned(data, stored);
  } else {
#pragma unroll
    for (int i = 0; i < V; ++i) reinterpret_cast<S*>(data)[i] = stored[i];
  }
}

// A whole group at unit stride; false where its type has no case.
template <TypeMask hot, class T, int V>
__device__ __forceinline__ bool store_hot(char* data, int type, const T (&group)[V]) {
  switch (type) {
#define ITERLAB_CASE(S, name, text)                                     \
  case type_index(DType::name):                                         \
    if constexpr ((hot & types<S>) != 0 && fills_words(V, sizeof(S))) { \
      store_contiguous<S>(data, group);                                 \
      return true;                                                      \
    }                                                                   \
    break;
    ITERLAB_FORALL_STORAGE_TYPES(ITERLAB_CASE)
#undef ITERLAB_CASE
  }
  return false;
}

template <TypeMask hot, class T, int V>
__device__ __forceinline__ bool scatter_hot(char* data, const int32_t (&offsets)[V],
                                            const bool (&valid)[V], int type, const T (&group)[V]) {
  switch (type) {
#define ITERLAB_CASE(S, name, text)                                                    \
  case type_index(DType::name):                                                        \
    if constexpr ((hot & types<S>) != 0) {                                             \
      _Pragma("unroll") for (int i = 0; i < V; ++i) {                                  \
        if (valid[i]) *reinterpret_cast<S*>(data + offsets[i]) = convert<S>(group[i]); \
      }                                                                                \
      return true;                                                                     \
    }                                                                                  \
    break;
    ITERLAB_FORALL_STORAGE_TYPES(ITERLAB_CASE)
#undef ITERLAB_CASE
  }
  return false;
}

}  // namespace iterlab::cuda
