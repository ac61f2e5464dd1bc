// Element types: names, sizes, categories, sets, and the dispatch from a run-time dtype to a C++
// type.
#pragma once

#include "iterlab/config.h"

#include <torch/headeronly/core/ScalarType.h>

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <string_view>
#include <type_traits>

namespace iterlab {

using DType = c10::ScalarType;
using Half = c10::Half;
using BFloat16 = c10::BFloat16;
template <class T>
using complex = c10::complex<T>;

// Note [Storage type, compute type, accumulate type]
// An operand is stored in one of the *storage types* below. A functor runs in a *compute type*: the
// first kNumComputeTypes of them. Half, bfloat16 and float8 are computed in float and complex-half
// in complex-float, as ATen does; so a functor is compiled for compute types only, and every other
// dtype is a matter of staging. Reductions collect in an *accumulate type*, which is a compute type
// too (see reduce.h).
#define ITERLAB_FORALL_COMPUTE_TYPES(_)             \
  _(bool, Bool, "bool")                             \
  _(uint8_t, Byte, "uint8")                         \
  _(int8_t, Char, "int8")                           \
  _(int16_t, Short, "int16")                        \
  _(int32_t, Int, "int32")                          \
  _(int64_t, Long, "int64")                         \
  _(uint16_t, UInt16, "uint16")                     \
  _(uint32_t, UInt32, "uint32")                     \
  _(uint64_t, UInt64, "uint64")                     \
  _(float, Float, "float32")                        \
  _(double, Double, "float64")                      \
  _(c10::complex<float>, ComplexFloat, "complex64") \
  _(c10::complex<double>, ComplexDouble, "complex128")

#define ITERLAB_FORALL_STORAGE_ONLY_TYPES(_)                  \
  _(c10::Half, Half, "float16")                               \
  _(c10::BFloat16, BFloat16, "bfloat16")                      \
  _(c10::Float8_e5m2, Float8_e5m2, "float8_e5m2")             \
  _(c10::Float8_e4m3fn, Float8_e4m3fn, "float8_e4m3fn")       \
  _(c10::Float8_e5m2fnuz, Float8_e5m2fnuz, "float8_e5m2fnuz") \
  _(c10::Float8_e4m3fnuz, Float8_e4m3fnuz, "float8_e4m3fnuz") \
  _(c10::Float8_e8m0fnu, Float8_e8m0fnu, "float8_e8m0fnu")    \
  _(c10::complex<c10::Half>, ComplexHalf, "complex32")

#define ITERLAB_FORALL_STORAGE_TYPES(_) \
  ITERLAB_FORALL_COMPUTE_TYPES(_) ITERLAB_FORALL_STORAGE_ONLY_TYPES(_)

// Dense index of a storage type, for tables. Compute types come first.
#define ITERLAB_INDEX(type, name, text) k##name##Index,
enum TypeIndex : int8_t { ITERLAB_FORALL_COMPUTE_TYPES(ITERLAB_INDEX) kNumComputeTypes };
enum StorageOnlyIndex : int8_t {
  kFirstStorageOnly = kNumComputeTypes - 1,
  ITERLAB_FORALL_STORAGE_ONLY_TYPES(ITERLAB_INDEX) kNumStorageTypes
};
#undef ITERLAB_INDEX

// Index of `dtype` among the storage types; -1 for a dtype that iterlab has no kernels for
// (quantized, bits).
constexpr int type_index(DType dtype) {
  switch (dtype) {
#define ITERLAB_CASE(type, name, text) \
  case DType::name:                    \
    return k##name##Index;
    ITERLAB_FORALL_STORAGE_TYPES(ITERLAB_CASE)
#undef ITERLAB_CASE
    default:
      return -1;
  }
}

// The same for a compute type, where it cannot be -1.
constexpr int compute_index(DType dtype) {
  const int index = type_index(dtype);
  if (index < 0 || index >= kNumComputeTypes) __builtin_unreachable();
  return index;
}

constexpr int64_t element_size(DType dtype) {
  switch (dtype) {
#define ITERLAB_CASE(type, name, text) \
  case DType::name:                    \
    return sizeof(type);
    ITERLAB_FORALL_STORAGE_TYPES(ITERLAB_CASE)
#undef ITERLAB_CASE
    default:
      return 0;
  }
}

// torch's Python name without the "torch." prefix.
constexpr const char* dtype_name(DType dtype) {
  switch (dtype) {
#define ITERLAB_CASE(type, name, text) \
  case DType::name:                    \
    return text;
    ITERLAB_FORALL_STORAGE_TYPES(ITERLAB_CASE)
#undef ITERLAB_CASE
    default:
      return "unsupported dtype";
  }
}

template <class T>
struct TypeToDType;
#define ITERLAB_TO_DTYPE(type, name, text)      \
  template <>                                   \
  struct TypeToDType<type> {                    \
    static constexpr DType value = DType::name; \
  };
ITERLAB_FORALL_STORAGE_TYPES(ITERLAB_TO_DTYPE)
#undef ITERLAB_TO_DTYPE
template <class T>
inline constexpr DType dtype_of = TypeToDType<T>::value;

template <class T>
inline constexpr bool is_complex_v = false;
template <class T>
inline constexpr bool is_complex_v<c10::complex<T>> = true;

// A set of dtypes, as a bit mask over TypeIndex.
struct DTypeSet {
  uint32_t bits = 0;
  constexpr DTypeSet() = default;
  constexpr DTypeSet(std::initializer_list<DType> dtypes) {
    for (DType dtype : dtypes) bits |= 1u << type_index(dtype);
  }
  constexpr bool contains(DType dtype) const {
    const int index = type_index(dtype);
    return index >= 0 && ((bits >> index) & 1u) != 0;
  }
  constexpr DTypeSet operator|(DTypeSet other) const {
    DTypeSet both;
    both.bits = bits | other.bits;
    return both;
  }
};

inline constexpr DTypeSet kBool{DType::Bool};
inline constexpr DTypeSet kSigned{DType::Char, DType::Short, DType::Int, DType::Long};
inline constexpr DTypeSet kUnsigned{DType::Byte, DType::UInt16, DType::UInt32, DType::UInt64};
inline constexpr DTypeSet kInteger = kSigned | kUnsigned;
inline constexpr DTypeSet kFloating{DType::Half, DType::BFloat16, DType::Float, DType::Double};
inline constexpr DTypeSet kFloat8{DType::Float8_e5m2, DType::Float8_e4m3fn, DType::Float8_e5m2fnuz,
                                  DType::Float8_e4m3fnuz, DType::Float8_e8m0fnu};
inline constexpr DTypeSet kComplex{DType::ComplexHalf, DType::ComplexFloat, DType::ComplexDouble};
inline constexpr DTypeSet kReal = kBool | kInteger | kFloating;
inline constexpr DTypeSet kFloatingAndComplex = kFloating | kComplex;
inline constexpr DTypeSet kNumeric = kInteger | kFloatingAndComplex;
inline constexpr DTypeSet kAllButFloat8 = kReal | kComplex;
inline constexpr DTypeSet kAllDTypes = kAllButFloat8 | kFloat8;

constexpr bool is_complex(DType dtype) { return kComplex.contains(dtype); }
constexpr bool is_floating(DType dtype) { return (kFloating | kFloat8).contains(dtype); }
constexpr bool is_integral(DType dtype, bool include_bool) {
  return kInteger.contains(dtype) || (include_bool && dtype == DType::Bool);
}

// The real dtype that holds one part of a complex dtype; other dtypes map to themselves.
constexpr DType real_of(DType dtype) {
  switch (dtype) {
    case DType::ComplexHalf:
      return DType::Half;
    case DType::ComplexFloat:
      return DType::Float;
    case DType::ComplexDouble:
      return DType::Double;
    default:
      return dtype;
  }
}

// The largest finite number of a floating dtype, or of a complex dtype's parts.
constexpr double highest_finite(DType dtype) {
  switch (real_of(dtype)) {
    case DType::Half:
      return 65504;
    case DType::BFloat16:
      return 0x1.FEp127;
    case DType::Float:
      return std::numeric_limits<float>::max();
    default:
      return std::numeric_limits<double>::max();
  }
}

// The type that a functor runs in for operands of `dtype`. Note [Storage type, compute type,
// accumulate type]
constexpr DType compute_dtype(DType dtype) {
  if (dtype == DType::ComplexHalf) return DType::ComplexFloat;
  if (type_index(dtype) >= kNumComputeTypes) return DType::Float;
  return dtype;
}

}  // namespace iterlab
