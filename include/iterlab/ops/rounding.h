// Operators that round. To add one: a struct, and its name in the list at the end.
#pragma once

#include "iterlab/math_elementary.h"
#include "iterlab/op.h"

namespace iterlab::ops {

struct Rounding : Unary {
  static constexpr auto dtypes = kInteger | kFloating;
};

struct Ceil : Rounding {
  static constexpr auto name = "ceil";
  static constexpr auto doc = "The smallest integer not below input.";
  template <class V>
  ITERLAB_FN V operator()(V input) const {
    return math::ceil(input);
  }
};

struct Floor : Rounding {
  static constexpr auto name = "floor";
  static constexpr auto doc = "The largest integer not above input.";
  template <class V>
  ITERLAB_FN V operator()(V input) const {
    return math::floor(input);
  }
};

struct Trunc : Rounding {
  static constexpr auto name = "trunc";
  static constexpr auto doc = "input without its fraction: rounded towards zero.";
  template <class V>
  ITERLAB_FN V operator()(V input) const {
    return math::trunc(input);
  }
};

struct Frac : Rounding {
  static constexpr auto name = "frac";
  static constexpr auto doc = "The fraction input - trunc(input).";
  static constexpr auto dtypes = kFloating;
  template <class V>
  ITERLAB_FN V operator()(V input) const {
    return input - math::trunc(input);
  }
};

struct Round : Rounding {
  static constexpr auto name = "round";
  static constexpr auto doc =
      "The multiple of 10^-decimals that is nearest to input; half way, the even one.";
  static constexpr std::array parameters{Parameter{
      .name = "decimals", .kind = ParameterKind::Int, .default_value = "0", .keyword_only = true}};
  static constexpr DTypeSet beyond_torch = kInteger;  // where decimals is given
  static constexpr ParameterCheck refuses_parameters = [](const Number* parameters, DType dtype) {
    const bool refused = parameters[0].integer != 0 && is_integral(dtype, true);
    return Refusal{refused ? "decimals of 0 for integers" : nullptr, ErrorKind::NotImplemented};
  };
  template <class V>
  ITERLAB_FN V operator()(V input, int64_t decimals) const {
    if constexpr (std::is_integral_v<scalar_of<V>>) {
      return input;
    } else {
      if (decimals == 0) return math::round(input);
      const auto magnitude = static_cast<double>(decimals < 0 ? -decimals : decimals);
      const V scale = constant<V>(std::pow(10.0, magnitude));
      return decimals < 0 ? math::round(input / scale) * scale : math::round(input * scale) / scale;
    }
  }
};

// torch.frexp gives both parts: src/composites_unary.cpp.
struct FrexpMantissa : Unary {
  static constexpr auto name = "_frexp_mantissa";
  static constexpr const char* torch_name = nullptr;
  static constexpr auto doc = "The mantissa m of input = m * 2^e, with 0.5 <= |m| < 1.";
  static constexpr auto dtypes = kFloating;
  static constexpr bool simd = false;
  template <class V>
  ITERLAB_FN V operator()(V input) const {
    return math::mantissa(input);
  }
};

struct FrexpExponent : Unary {
  static constexpr auto name = "_frexp_exponent";
  static constexpr const char* torch_name = nullptr;
  static constexpr auto doc =
      "The exponent e of input = m * 2^e, with 0.5 <= |m| < 1; 0 of zero, infinities and nan.";
  static constexpr auto promotion = Promotion::AlwaysInt;
  static constexpr auto dtypes = kFloating;
  static constexpr bool simd = false;
  template <class V>
  ITERLAB_FN V operator()(V input) const {
    return math::exponent(input);
  }
};

using RoundingOps = OpList<Ceil, Floor, Trunc, Frac, Round, FrexpMantissa, FrexpExponent>;

}  // namespace iterlab::ops
