// Arithmetic with two operands. To add an operator: a struct, and its name in the list at the end.
#pragma once

#include "iterlab/math_binary.h"
#include "iterlab/op.h"

namespace iterlab::ops {

struct Scaled : Binary {
  static constexpr std::array parameters{Parameter{
      .name = "alpha", .kind = ParameterKind::Alpha, .default_value = "1", .keyword_only = true}};
};

struct Add : Scaled {
  static constexpr auto name = "add";
  static constexpr auto doc = "input + alpha * other. Of bool: logical or.";
  template <class V>
  ITERLAB_FN V operator()(V input, V other, V alpha) const {
    return math::fma(other, alpha, input);
  }
};

struct Subtraction : Scaled {
  static constexpr auto dtypes = kNumeric;
  static constexpr const char* refuses(const InputFacts* inputs) {
    if (inputs[0].dtype != DType::Bool && inputs[1].dtype != DType::Bool) return nullptr;
    return "operands other than bool: use logical_xor, or logical_not to invert a mask";
  }
};

struct Sub : Subtraction {
  static constexpr auto name = "sub";
  static constexpr auto doc = "input - alpha * other. Not of bool.";
  template <class V>
  ITERLAB_FN V operator()(V input, V other, V alpha) const {
    return math::fma(other, -alpha, input);
  }
};

struct Rsub : Subtraction {
  static constexpr auto name = "rsub";
  static constexpr auto doc = "other - alpha * input. Not of bool.";
  template <class V>
  ITERLAB_FN V operator()(V input, V other, V alpha) const {
    return math::fma(input, -alpha, other);
  }
};

struct Mul : Binary {
  static constexpr auto name = "mul";
  static constexpr auto doc = "input * other. Of bool: logical and.";
  static constexpr uint32_t wide_inputs = 0b10;
  static constexpr auto dtypes = kAllDTypes;
  template <class V>
  ITERLAB_FN V operator()(V input, V other) const {
    return input * other;
  }
};

struct TrueDivide : Binary {
  static constexpr auto name = "true_divide";
  static constexpr auto doc = "input / other; of integers and bool a floating point number.";
  static constexpr auto promotion = Promotion::IntToFloat;
  static constexpr uint32_t wide_inputs = 0b10;
  static constexpr auto dtypes = kFloatingAndComplex;
  static constexpr double cost = 2;
  template <class V>
  ITERLAB_FN V operator()(V input, V other) const {
    return input / other;
  }
};

// Floating point division rounded down, as Python's: c10::div_floor_floating.
template <class V>
ITERLAB_FN V floor_quotient(const V& a, const V& b) {
  const V zero = constant<V>(0), one = constant<V>(1);
  const V remainder = math::fmod(a, b);
  V quotient = (a - remainder) / b;
  const auto down = math::both(math::ne(remainder, zero),
                               math::differ(math::lt(b, zero), math::lt(remainder, zero)));
  quotient = math::select(down, quotient - one, quotient);
  V rounded = math::floor(quotient);
  rounded = math::select(math::gt(quotient - rounded, constant<V>(0.5)), rounded + one, rounded);
  const V plain = a / b;
  rounded = math::select(math::eq(quotient, zero), math::copysign(zero, plain), rounded);
  return math::select(math::eq(b, zero), plain, rounded);
}

// What a half-precision dtype holds of a quotient in float, as far as its fraction goes: 2.999 is 3
// in bfloat16, and truncates to 3, as in ATen. Keeps the upper bits of the significand (Dekker,
// "A floating-point technique for extending the available precision", 1971); a quotient of two such
// numbers is never half way between two of them. From 2048 on they have no fraction.
template <class V>
ITERLAB_FN V stored_quotient(const V& quotient, int64_t dtype) {
  const bool half = dtype == static_cast<int64_t>(DType::Half);
  if (!half && dtype != static_cast<int64_t>(DType::BFloat16)) return quotient;
  const V scaled = quotient * constant<V>(half ? 0x1p13 + 1 : 0x1p16 + 1);
  const V upper = scaled - (scaled - quotient);
  return math::select(math::lt(math::abs(quotient), constant<V>(2048)), upper, quotient);
}

// Floating point modulus with the sign of the divisor.
template <class V>
ITERLAB_FN V modulus(const V& a, const V& b) {
  const V zero = constant<V>(0);
  const V remainder = math::fmod(a, b);
  const auto down = math::both(math::ne(remainder, zero),
                               math::differ(math::lt(b, zero), math::lt(remainder, zero)));
  return math::select(down, remainder + b, remainder);
}

struct FloorDivide : Binary {
  static constexpr auto name = "floor_divide";
  static constexpr auto doc =
      "floor(input / other). Integers stay integers and raise where other is zero.";
  static constexpr uint32_t wide_inputs = 0b10;
  static constexpr auto dtypes = kInteger | kFloating;
  static constexpr double cost = 8;
  template <class V>
  ITERLAB_FN V operator()(V input, V other) const {
    if constexpr (math::is_integer<V>) {
      return math::integer_floor_quotient(input, other);
    } else {
      return floor_quotient(input, other);
    }
  }
};

struct Div : Binary {
  static constexpr auto name = "div";
  static constexpr auto doc =
      "input / other, with rounding_mode 'trunc' or 'floor' rounded toward zero or down. Integers "
      "that are rounded stay integers and raise where other is zero.";
  static constexpr std::array parameters{Parameter{.name = "rounding_mode",
                                                   .kind = ParameterKind::Choice,
                                                   .default_value = "None",
                                                   .keyword_only = true,
                                                   .choices = {nullptr, "trunc", "floor"},
                                                   .num_choices = 3}};
  static constexpr auto promotion = Promotion::IntToFloat;
  static constexpr uint32_t wide_inputs = 0b10;
  static constexpr auto dtypes = kFloatingAndComplex;
  static constexpr int rounding_parameter = 0;
  static constexpr auto rounded_dtypes = kInteger | kFloating;
  static constexpr auto extra = Extra::DType;
  static constexpr double cost = 2;
  template <class V>
  ITERLAB_FN V operator()(V input, V other, int64_t rounding_mode, int64_t dtype) const {
    if constexpr (math::complex_valued<V>) {
      return input / other;
    } else if constexpr (math::is_integer<V>) {
      return rounding_mode == 1 ? math::integer_quotient(input, other)
                                : math::integer_floor_quotient(input, other);
    } else {
      if (rounding_mode == 0) return input / other;
      return rounding_mode == 1 ? math::trunc(stored_quotient(input / other, dtype))
                                : floor_quotient(input, other);
    }
  }
};

struct Remainder : Binary {
  static constexpr auto name = "remainder";
  static constexpr auto doc =
      "input - floor(input / other) * other, with the sign of other. Integers raise where other is "
      "zero.";
  static constexpr auto dtypes = kInteger | kFloating;
  static constexpr double cost = 8;
  template <class V>
  ITERLAB_FN V operator()(V input, V other) const {
    if constexpr (math::is_integer<V>) {
      return math::integer_modulus(input, other);
    } else {
      return modulus(input, other);
    }
  }
};

struct Fmod : Binary {
  static constexpr auto name = "fmod";
  static constexpr auto doc =
      "input - trunc(input / other) * other, with the sign of input. Integers raise where other is "
      "zero.";
  static constexpr auto dtypes = kInteger | kFloating;
  static constexpr double cost = 8;
  template <class V>
  ITERLAB_FN V operator()(V input, V other) const {
    if constexpr (math::is_integer<V>) {
      return math::integer_remainder(input, other);
    } else {
      return math::fmod(input, other);
    }
  }
};

struct Pow : Binary {
  static constexpr auto name = "pow";
  static constexpr auto doc =
      "input to the power of exponent. Integers wrap around; exponent must not be a negative "
      "number "
      "for them.";
  static constexpr std::array inputs{"input", "exponent"};
  static constexpr auto dtypes = kNumeric;
  static constexpr auto number_dtypes = kBool;  // to the power of True or False
  static constexpr bool complex_simd = false;
  static constexpr auto extra = Extra::Power;
  static constexpr AutocastPolicy autocast{.cuda = Autocast::Float32};
  static constexpr double cost = 12;
  template <class V>
  ITERLAB_FN V operator()(V input, V exponent, Power power) const {
    if constexpr (std::is_same_v<scalar_of<V>, bool>) {
      return math::as_value<V>(
          math::either(math::is_true(input), math::negated(math::is_true(exponent))));
    } else if constexpr (!math::is_integer<V>) {
      const V one = constant<V>(1);
      switch (power) {
        case Power::One:
          return one;
        case Power::Same:
          return input;
        case Power::Square:
          return input * input;
        case Power::Cube:
          return input * input * input;
        case Power::Root:
          return math::sqrt(input);
        case Power::InverseRoot:
          return one / math::sqrt(input);
        case Power::Inverse:
          return one / input;
        case Power::InverseSquare:
          return one / (input * input);
        default:
          break;
      }
    }
    return math::pow(input, exponent);
  }
};

struct Ldexp : Binary {
  static constexpr auto name = "ldexp";
  static constexpr auto doc = "input * 2 to the power of other.";
  static constexpr auto promotion = Promotion::IntToFloat;
  static constexpr uint32_t wide_inputs = 0b10;
  static constexpr auto dtypes = kFloatingAndComplex;
  static constexpr DTypeSet beyond_torch = kBool;
  static constexpr bool complex_simd = false;
  static constexpr double cost = 12;
  static constexpr AutocastPolicy autocast{.cuda = Autocast::Float32};  // as pow, which ATen calls
  template <class V>
  ITERLAB_FN V operator()(V input, V other) const {
    return math::scale_by_power_of_two(input, other);
  }
};

using BinaryOps =
    OpList<Add, Sub, Rsub, Mul, TrueDivide, FloorDivide, Div, Remainder, Fmod, Pow, Ldexp>;

}  // namespace iterlab::ops
