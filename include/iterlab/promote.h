// Type promotion: the dtype lattice, and torch's rule of three categories over the operands of a
// call.
#pragma once

#include "iterlab/dtype.h"

#include <optional>

namespace iterlab {

// The complex dtype whose parts hold `dtype`. bfloat16 has float's range, so it maps to complex64.
constexpr DType complex_of(DType dtype) {
  switch (dtype) {
    case DType::Half:
      return DType::ComplexHalf;
    case DType::Double:
      return DType::ComplexDouble;
    default:
      return is_complex(dtype) ? dtype : DType::ComplexFloat;
  }
}

namespace detail {

constexpr bool is_wide_unsigned(DType dtype) {
  return dtype == DType::UInt16 || dtype == DType::UInt32 || dtype == DType::UInt64;
}

constexpr DType promote_floating(DType a, DType b) {
  if (a == b) return a;
  if (a == DType::Double || b == DType::Double) return DType::Double;
  return DType::Float;  // float with a half type, or the two half types together
}

constexpr DType promote_integral(DType a, DType b) {
  if (a == DType::Bool) return b;
  if (b == DType::Bool) return a;
  if (element_size(a) == element_size(b)) return DType::Short;  // uint8 with int8
  return element_size(a) > element_size(b) ? a : b;
}

}  // namespace detail

// torch.promote_types(a, b); nothing where torch has no promotion (float8 with another dtype,
// uint16/32/64 with another integer or a complex dtype).
constexpr std::optional<DType> promote_types(DType a, DType b) {
  if (a == b) return a;
  if (kFloat8.contains(a) || kFloat8.contains(b)) return std::nullopt;
  if (detail::is_wide_unsigned(a) || detail::is_wide_unsigned(b)) {
    const DType other = detail::is_wide_unsigned(a) ? b : a;
    if (is_floating(other)) return other;
    return std::nullopt;
  }
  if (is_complex(a) || is_complex(b)) {
    const DType real_a = is_integral(a, true) ? real_of(b) : real_of(a);
    const DType real_b = is_integral(b, true) ? real_of(a) : real_of(b);
    return complex_of(detail::promote_floating(real_a, real_b));
  }
  if (is_floating(a) && is_floating(b)) return detail::promote_floating(a, b);
  if (is_floating(a)) return a;
  if (is_floating(b)) return b;
  return detail::promote_integral(a, b);
}

// torch.can_cast: whether a result of dtype `from` may be written to an output of dtype `to`.
constexpr bool can_cast(DType from, DType to) {
  if (is_complex(from) && !is_complex(to)) return false;
  if (is_floating(from) && is_integral(to, true)) return false;
  if (from != DType::Bool && to == DType::Bool) return false;
  return true;
}

// How strongly an operand takes part in promotion, from strong to weak.
enum class PromotionCategory : uint8_t { Dimensioned, ZeroDim, WrappedNumber };
inline constexpr int kNumCategories = 3;

// Note [Promotion categories]
// Operands with dimensions outrank 0-d tensors, which outrank Python numbers. A weaker category
// changes the result only if it is of a higher kind (bool < integer < floating < complex); then it
// also brings its width, except that a complex number beside floating tensors keeps their width.
// The same rule as torch.result_type.
// Undefined stands for a category without operands; nothing is returned where torch has no
// promotion.
constexpr std::optional<DType> combine_categories(DType strong, DType weak) {
  if (strong == DType::Undefined) return weak;
  if (weak == DType::Undefined || is_complex(strong)) return strong;
  if (is_floating(strong)) {
    if (!is_complex(weak)) return strong;
    if (kFloat8.contains(strong)) return std::nullopt;
    return complex_of(strong);
  }
  if (detail::is_wide_unsigned(strong) && is_complex(weak)) return weak;
  if (strong == DType::Bool || is_floating(weak) || is_complex(weak))
    return promote_types(strong, weak);
  return strong;
}

}  // namespace iterlab
