// Unary operators: signs, arithmetic, parts of complex numbers, and what is made of values. To add
// one: a struct, and its name in the list at the end.
#pragma once

#include "iterlab/input_checks.h"
#include "iterlab/math_elementary.h"
#include "iterlab/op.h"

#include <numbers>

namespace iterlab::ops {

// What torch computes for integers too: not bool, nor the wide unsigned types.
inline constexpr DTypeSet kArithmetic = kSigned | DTypeSet{DType::Byte} | kFloating;

struct Abs : Unary {
  static constexpr auto name = "abs";
  static constexpr auto doc = "The magnitude |input|, a real number.";
  static constexpr auto promotion = Promotion::ComplexToReal;
  static constexpr auto dtypes = kArithmetic | kComplex | kFloat8;
  static constexpr bool changes_signs_only = true;
  template <class V>
  ITERLAB_FN V operator()(V input) const {
    return math::abs(input);
  }
};

struct Neg : Unary {
  static constexpr auto name = "neg";
  static constexpr auto doc = "-input. Integers wrap around.";
  static constexpr auto dtypes = kArithmetic | kComplex;
  static constexpr InputCheck refuses = refuse_bool;
  static constexpr bool changes_signs_only = true;
  template <class V>
  ITERLAB_FN V operator()(V input) const {
    return math::neg(input);
  }
};

// -1, 0 or 1 of a real V; 0 for nan.
template <class V>
ITERLAB_FN V sign_of(V x) {
  const V zero = constant<V>(0);
  return math::as_value<V>(math::gt(x, zero)) - math::as_value<V>(math::lt(x, zero));
}

struct Sign : Unary {
  static constexpr auto name = "sign";
  static constexpr auto doc = "-1, 0 or 1 by the sign of input; 0 for nan.";
  static constexpr auto dtypes = kArithmetic | kBool;
  static constexpr double cost = 2;
  template <class V>
  ITERLAB_FN V operator()(V input) const {
    return sign_of(input);
  }
};

struct Sgn : Unary {
  static constexpr auto name = "sgn";
  static constexpr auto doc = "sign(input); of complex numbers input / |input|, and 0 for 0.";
  static constexpr auto dtypes = kArithmetic | kBool | kComplex;
  static constexpr double cost = 2;
  template <class V>
  ITERLAB_FN V operator()(V input) const {
    if constexpr (is_complex_v<scalar_of<V>>) {
      return math::direction(input);
    } else {
      return sign_of(input);
    }
  }
};

struct Positive : Unary {
  static constexpr auto name = "positive";
  static constexpr auto doc = "input, as a new tensor.";
  static constexpr auto dtypes = kInteger | kFloating | kComplex | kFloat8;
  static constexpr InputCheck refuses = refuse_bool;
  static constexpr uint8_t variants = kFunctional | kOut;
  static constexpr bool moves_bits = true;
  template <class V>
  ITERLAB_FN V operator()(V input) const {
    return input;
  }
};

struct Square : Unary {
  static constexpr auto name = "square";
  static constexpr auto doc = "input * input. Integers wrap around.";
  static constexpr auto promotion = Promotion::BoolToInt;
  static constexpr auto dtypes = kArithmetic | kComplex;
  static constexpr AutocastPolicy autocast{.cuda = Autocast::Float32};  // as pow, which ATen calls
  template <class V>
  ITERLAB_FN V operator()(V input) const {
    return input * input;
  }
};

struct Reciprocal : Unary {
  static constexpr auto name = "reciprocal";
  static constexpr auto doc = "1 divided by input.";
  static constexpr auto promotion = Promotion::IntToFloat;
  static constexpr auto dtypes = kFloatingAndComplex;
  static constexpr bool complex_simd = false;
  static constexpr double cost = 1.5;
  static constexpr AutocastPolicy autocast{.cuda = Autocast::Float32};
  template <class V>
  ITERLAB_FN V operator()(V input) const {
    return constant<V>(1) / input;
  }
};

struct Deg2Rad : Unary {
  static constexpr auto name = "deg2rad";
  static constexpr auto doc = "input * pi / 180: degrees to radians.";
  static constexpr auto promotion = Promotion::IntToFloat;
  static constexpr auto dtypes = kFloating;
  static constexpr InputCheck refuses = refuse_complex<1>;
  template <class V>
  ITERLAB_FN V operator()(V input) const {
    return input * constant<V>(std::numbers::pi / 180);
  }
};

struct Rad2Deg : Unary {
  static constexpr auto name = "rad2deg";
  static constexpr auto doc = "input * 180 / pi: radians to degrees.";
  static constexpr auto promotion = Promotion::IntToFloat;
  static constexpr auto dtypes = kFloating;
  static constexpr InputCheck refuses = refuse_complex<1>;
  template <class V>
  ITERLAB_FN V operator()(V input) const {
    return input * constant<V>(180 / std::numbers::pi);
  }
};

struct Angle : Unary {
  static constexpr auto name = "angle";
  static constexpr auto doc =
      "The angle of input to the positive real axis, in radians: atan2(imag, real); of real "
      "numbers "
      "0, or pi where negative.";
  static constexpr auto promotion = Promotion::IntToFloatComplexToReal;
  static constexpr auto dtypes = kFloatingAndComplex;
  static constexpr double cost = 2;
  template <class V>
  ITERLAB_FN V operator()(V input) const {
    if constexpr (is_complex_v<scalar_of<V>>) {
      return math::phase(input);
    } else {
      const V zero = constant<V>(0);
      const V angle = math::select(math::lt(input, zero), constant<V>(std::numbers::pi), zero);
      return math::select(math::isnan(input), input, angle);
    }
  }
};

struct ConjPhysical : Unary {
  static constexpr auto name = "conj_physical";
  static constexpr auto doc = "The complex conjugate of input, as a new tensor.";
  static constexpr auto dtypes = kAllDTypes;
  static constexpr bool changes_signs_only = true;
  template <class V>
  ITERLAB_FN V operator()(V input) const {
    return math::conj(input);
  }
};

struct NanToNum : Unary {
  static constexpr auto name = "nan_to_num";
  static constexpr auto doc =
      "input with nan replaced by nan (None: 0), and infinities by posinf and neginf (None: the "
      "dtype's largest and lowest finite numbers), in each part of complex numbers.";
  static constexpr auto dtypes = kAllButFloat8;
  static constexpr bool complex_simd = false;
  static constexpr auto extra = Extra::DType;
  static constexpr std::array parameters{
      Parameter{.name = "nan", .kind = ParameterKind::OptionalFloat, .default_value = "None"},
      Parameter{.name = "posinf", .kind = ParameterKind::OptionalFloat, .default_value = "None"},
      Parameter{.name = "neginf", .kind = ParameterKind::OptionalFloat, .default_value = "None"}};
  static constexpr double cost = 2;
  template <class V>
  ITERLAB_FN V operator()(V input, Optional<V> nan, Optional<V> posinf, Optional<V> neginf,
                          int64_t dtype) const {
    using T = scalar_of<V>;
    if constexpr (std::is_integral_v<T>) {
      return input;
    } else {
      const double limit = highest_finite(static_cast<DType>(dtype));
      const V highest = posinf.given ? posinf.value : constant<V>(limit);
      const V lowest = neginf.given ? neginf.value : constant<V>(-limit);
      if constexpr (is_complex_v<T>) {
        const auto by = [&](auto part) {
          return replaced(part, math::real_part(nan.value), math::real_part(highest),
                          math::real_part(lowest));
        };
        return math::from_parts<V>(by(math::real_part(input)), by(math::imag_part(input)));
      } else {
        return replaced(input, nan.value, highest, lowest);
      }
    }
  }

 private:
  template <class V>
  ITERLAB_FN static V replaced(V x, V nan, V highest, V lowest) {
    const V no_inf =
        math::select(math::isinf(x), math::select(math::lt(x, constant<V>(0)), lowest, highest), x);
    return math::select(math::isnan(x), nan, no_inf);
  }
};

struct BitwiseNot : Unary {
  static constexpr auto name = "bitwise_not";
  static constexpr auto doc = "The complement of input's bits; of bool: logical not.";
  static constexpr auto dtypes = kBool | kSigned | DTypeSet{DType::Byte};
  template <class V>
  ITERLAB_FN V operator()(V input) const {
    if constexpr (std::is_same_v<scalar_of<V>, bool>) {
      return math::as_value<V>(math::negated(math::is_true(input)));
    } else {
      return constant<V>(-1) - input;  // two's complement
    }
  }
};

// Predicates: they return bool.
struct Predicate : Unary {
  static constexpr auto promotion = Promotion::AlwaysBool;
  static constexpr bool complex_simd = false;
};

struct SignBit : Predicate {
  static constexpr auto name = "signbit";
  static constexpr auto doc = "Whether input has its sign bit set; -0.0 has.";
  static constexpr auto dtypes = kReal;
  static constexpr double cost = 2;
  template <class V>
  ITERLAB_FN V operator()(V input) const {
    return math::as_value<V>(math::signbit(input));
  }
};

struct IsNan : Predicate {
  static constexpr auto name = "isnan";
  static constexpr auto doc = "Whether input, or a part of it, is nan.";
  static constexpr auto dtypes = kAllDTypes;
  static constexpr double cost = 1.5;
  template <class V>
  ITERLAB_FN V operator()(V input) const {
    return math::as_value<V>(math::isnan(input));
  }
};

struct IsInf : Predicate {
  static constexpr auto name = "isinf";
  static constexpr auto doc = "Whether input, or a part of it, is infinite.";
  static constexpr auto dtypes = kAllDTypes;
  static constexpr double cost = 2;
  template <class V>
  ITERLAB_FN V operator()(V input) const {
    return math::as_value<V>(math::isinf(input));
  }
};

struct IsFinite : Predicate {
  static constexpr auto name = "isfinite";
  static constexpr auto doc = "Whether input is neither nan nor infinite, in all parts.";
  static constexpr auto dtypes = kAllDTypes;
  static constexpr double cost = 2;
  template <class V>
  ITERLAB_FN V operator()(V input) const {
    return math::as_value<V>(math::negated(math::either(math::isnan(input), math::isinf(input))));
  }
};

struct IsPosInf : Predicate {
  static constexpr auto name = "isposinf";
  static constexpr auto doc = "Whether input is positive infinity.";
  static constexpr auto dtypes = kReal;
  static constexpr InputCheck refuses = refuse_complex<1>;
  template <class V>
  ITERLAB_FN V operator()(V input) const {
    return math::as_value<V>(math::both(math::isinf(input), math::gt(input, constant<V>(0))));
  }
};

struct IsNegInf : Predicate {
  static constexpr auto name = "isneginf";
  static constexpr auto doc = "Whether input is negative infinity.";
  static constexpr auto dtypes = kReal;
  static constexpr InputCheck refuses = refuse_complex<1>;
  template <class V>
  ITERLAB_FN V operator()(V input) const {
    return math::as_value<V>(math::both(math::isinf(input), math::lt(input, constant<V>(0))));
  }
};

struct LogicalNot : Predicate {
  static constexpr auto name = "logical_not";
  static constexpr auto doc = "Whether input == 0.";
  static constexpr auto dtypes = kArithmetic | kBool | kComplex;
  template <class V>
  ITERLAB_FN V operator()(V input) const {
    return math::as_value<V>(math::eq(input, constant<V>(0)));
  }
};

using UnaryOps =
    OpList<Abs, Neg, Sign, Sgn, Positive, Square, Reciprocal, Deg2Rad, Rad2Deg, Angle, ConjPhysical,
           NanToNum, BitwiseNot, SignBit, IsNan, IsInf, IsFinite, IsPosInf, IsNegInf, LogicalNot>;

}  // namespace iterlab::ops
