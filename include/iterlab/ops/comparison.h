// Comparisons and logic. To add one: a struct, and its name in the list at the end.
#pragma once

#include "iterlab/math_binary.h"
#include "iterlab/op.h"

namespace iterlab::ops {

// Of real numbers; equality is defined for all dtypes.
struct Comparison : Binary {
  static constexpr auto promotion = Promotion::AlwaysBool;
  static constexpr auto dtypes = kReal;
};

struct Eq : Comparison {
  static constexpr auto name = "eq";
  static constexpr auto doc = "Whether input == other, elementwise.";
  static constexpr auto dtypes = kAllDTypes;
  template <class V>
  ITERLAB_FN V operator()(V input, V other) const {
    return math::as_value<V>(math::eq(input, other));
  }
};

struct Ne : Comparison {
  static constexpr auto name = "ne";
  static constexpr auto doc = "Whether input != other, elementwise.";
  static constexpr auto dtypes = kAllDTypes;
  template <class V>
  ITERLAB_FN V operator()(V input, V other) const {
    return math::as_value<V>(math::ne(input, other));
  }
};

struct Lt : Comparison {
  static constexpr auto name = "lt";
  static constexpr auto doc = "Whether input < other, elementwise.";
  template <class V>
  ITERLAB_FN V operator()(V input, V other) const {
    return math::as_value<V>(math::lt(input, other));
  }
};

struct Le : Comparison {
  static constexpr auto name = "le";
  static constexpr auto doc = "Whether input <= other, elementwise.";
  template <class V>
  ITERLAB_FN V operator()(V input, V other) const {
    return math::as_value<V>(math::le(input, other));
  }
};

struct Gt : Comparison {
  static constexpr auto name = "gt";
  static constexpr auto doc = "Whether input > other, elementwise.";
  template <class V>
  ITERLAB_FN V operator()(V input, V other) const {
    return math::as_value<V>(math::gt(input, other));
  }
};

struct Ge : Comparison {
  static constexpr auto name = "ge";
  static constexpr auto doc = "Whether input >= other, elementwise.";
  template <class V>
  ITERLAB_FN V operator()(V input, V other) const {
    return math::as_value<V>(math::ge(input, other));
  }
};

// Zero is false, all else is true.
struct Logical : Binary {
  static constexpr auto promotion = Promotion::AlwaysBool;
};

struct LogicalAnd : Logical {
  static constexpr auto name = "logical_and";
  static constexpr auto doc = "Whether both input and other are true: other than zero.";
  template <class V>
  ITERLAB_FN V operator()(V input, V other) const {
    return math::as_value<V>(math::both(math::is_true(input), math::is_true(other)));
  }
};

struct LogicalOr : Logical {
  static constexpr auto name = "logical_or";
  static constexpr auto doc = "Whether input or other is true: other than zero.";
  template <class V>
  ITERLAB_FN V operator()(V input, V other) const {
    return math::as_value<V>(math::either(math::is_true(input), math::is_true(other)));
  }
};

struct LogicalXor : Logical {
  static constexpr auto name = "logical_xor";
  static constexpr auto doc =
      "Whether one of input and other is true, and the other is not: other than zero.";
  template <class V>
  ITERLAB_FN V operator()(V input, V other) const {
    return math::as_value<V>(math::differ(math::is_true(input), math::is_true(other)));
  }
};

struct IsClose : Binary {
  static constexpr auto name = "isclose";
  static constexpr auto doc =
      "Whether input == other, or abs(input - other) <= atol + abs(rtol * other) and finite, or, "
      "with equal_nan, both are nan.";
  static constexpr std::array parameters{
      Parameter{.name = "rtol",
                .kind = ParameterKind::Float,
                .default_value = "1e-05",
                .at_least_zero = true},
      Parameter{.name = "atol",
                .kind = ParameterKind::Float,
                .default_value = "1e-08",
                .at_least_zero = true},
      Parameter{.name = "equal_nan", .kind = ParameterKind::Bool, .default_value = "False"}};
  static constexpr auto promotion = Promotion::FloatToBool;
  static constexpr auto dtypes = kFloatingAndComplex;
  static constexpr bool simd = false;
  static constexpr double cost = 4;
  static constexpr const char* refuses(const InputFacts* inputs) {
    const bool number = inputs[0].category == PromotionCategory::WrappedNumber ||
                        inputs[1].category == PromotionCategory::WrappedNumber;
    return number || inputs[0].dtype == inputs[1].dtype ? nullptr : "operands of one dtype";
  }
  template <class V>
  ITERLAB_FN V operator()(V input, V other, V rtol, V atol, int64_t equal_nan) const {
    const auto error = real_part(math::abs(input - other));
    const auto allowed = real_part(atol) + real_part(math::abs(rtol * other));
    const bool close = math::both(math::eq(error - error, constant<decltype(error - error)>(0)),
                                  math::le(error, allowed));
    const bool nans = equal_nan != 0 && math::both(math::isnan(input), math::isnan(other));
    return math::as_value<V>(math::eq(input, other) || close || nans);
  }

 private:
  template <class T>
  static ITERLAB_FN auto real_part(Lane<T> x) {
    if constexpr (is_complex_v<T>) {
      return Lane<typename T::value_type>(x.value.real());
    } else {
      return x;
    }
  }
};

using ComparisonOps = OpList<Eq, Ne, Lt, Le, Gt, Ge, LogicalAnd, LogicalOr, LogicalXor, IsClose>;

}  // namespace iterlab::ops
