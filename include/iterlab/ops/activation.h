// Activations. To add one: a struct, and its name in the list at the end.
#pragma once

#include "iterlab/input_checks.h"
#include "iterlab/math_elementary.h"
#include "iterlab/op.h"
#include "iterlab/ops/elementary.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

namespace iterlab::ops {

struct Activation : Unary {
  static constexpr auto dtypes = kFloating;
};

// x bounded by low and high; nan stays.
template <class V>
ITERLAB_FN V bounded(V x, V low, V high) {
  const V above = math::select(math::lt(x, low), low, x);
  return math::select(math::gt(above, high), high, above);
}

// A number that ATen's kernel keeps as it keeps elements, which a half cannot hold.
inline bool beyond_half(const Number& number, DType dtype) {
  const double size = std::abs(number.to<double>());
  return dtype == DType::Half && size > 65504 && size <= std::numeric_limits<double>::max();
}

// For operators whose parameters, `count` of them, are such numbers.
template <int count>
inline constexpr ParameterCheck halves_hold_them = [](const Number* parameters, DType dtype) {
  const bool beyond = std::any_of(parameters, parameters + count,
                                  [=](const Number& number) { return beyond_half(number, dtype); });
  return Refusal{beyond ? "numbers that float16 holds" : nullptr};
};

// Bounds of integers are cut to integers first, as in ATen.
inline constexpr ParameterCheck bounds_are_in_order = [](const Number* parameters, DType dtype) {
  const double low = parameters[0].to<double>(), high = parameters[1].to<double>();
  if (low > high) return Refusal{"min_val not above max_val", ErrorKind::Value};
  if (dtype == DType::Byte && (low <= -1 || high <= -1))
    return Refusal{"no negative bounds for uint8"};
  return halves_hold_them<2>(parameters, dtype);
};

struct Relu : Activation {
  static constexpr auto name = "relu";
  static constexpr auto torch_name = "nn.functional.relu";
  static constexpr auto doc = "input where positive, 0 elsewhere.";
  static constexpr auto dtypes = kSigned | DTypeSet{DType::Byte} | kFloating;
  static constexpr InputCheck refuses = refuse_bool;
  template <class V>
  ITERLAB_FN V operator()(V input) const {
    const V zero = constant<V>(0);
    return math::select(math::lt(input, zero), zero, input);
  }
};

struct Relu6 : Activation {
  static constexpr auto name = "relu6";
  static constexpr auto torch_name = "nn.functional.relu6";
  static constexpr auto doc = "input bounded by 0 and 6.";
  static constexpr auto dtypes = kSigned | DTypeSet{DType::Byte} | kFloating;
  static constexpr InputCheck refuses = refuse_bool;
  static constexpr double cost = 1.5;
  template <class V>
  ITERLAB_FN V operator()(V input) const {
    return bounded(input, constant<V>(0), constant<V>(6));
  }
};

struct Hardtanh : Activation {
  static constexpr auto name = "hardtanh";
  static constexpr auto torch_name = "nn.functional.hardtanh";
  static constexpr auto doc = "input bounded by min_val and max_val.";
  static constexpr std::array parameters{
      Parameter{.name = "min_val", .kind = ParameterKind::Scalar, .default_value = "-1"},
      Parameter{.name = "max_val", .kind = ParameterKind::Scalar, .default_value = "1"}};
  static constexpr auto dtypes = kSigned | DTypeSet{DType::Byte} | kFloating;
  static constexpr InputCheck refuses = refuse_bool;
  static constexpr ParameterCheck refuses_parameters = bounds_are_in_order;
  static constexpr double cost = 1.5;
  template <class V>
  ITERLAB_FN V operator()(V input, V min_val, V max_val) const {
    return bounded(input, min_val, max_val);
  }
};

struct Threshold : Activation {
  static constexpr auto name = "threshold";
  static constexpr auto torch_name = "nn.functional.threshold";
  static constexpr auto doc = "input where above threshold, value elsewhere.";
  static constexpr std::array parameters{
      Parameter{.name = "threshold", .kind = ParameterKind::Scalar},
      Parameter{.name = "value", .kind = ParameterKind::Scalar}};
  static constexpr ParameterCheck refuses_parameters = [](const Number* parameters, DType dtype) {
    return halves_hold_them<1>(parameters + 1, dtype);  // value: it is an element
  };
  static constexpr auto dtypes = kSigned | DTypeSet{DType::Byte} | kFloating;
  template <class V>
  ITERLAB_FN V operator()(V input, V threshold, V value) const {
    return math::select(math::le(input, threshold), value, input);
  }
};

struct LeakyRelu : Activation {
  static constexpr auto name = "leaky_relu";
  static constexpr auto torch_name = "nn.functional.leaky_relu";
  static constexpr auto doc = "input where positive, negative_slope * input elsewhere.";
  static constexpr std::array parameters{
      Parameter{.name = "negative_slope", .kind = ParameterKind::Scalar, .default_value = "0.01"}};
  template <class V>
  ITERLAB_FN V operator()(V input, V negative_slope) const {
    return math::select(math::gt(input, constant<V>(0)), input, input * negative_slope);
  }
};

// torch.prelu shapes the weight first: src/composites_unary.cpp.
struct Prelu : Binary {
  static constexpr auto name = "_prelu_kernel";
  static constexpr const char* torch_name = nullptr;
  static constexpr auto doc = "input where positive, weight * input elsewhere.";
  static constexpr std::array inputs{"input", "weight"};
  static constexpr auto dtypes = kFloating;
  template <class V>
  ITERLAB_FN V operator()(V input, V weight) const {
    return math::select(math::gt(input, constant<V>(0)), input, weight * input);
  }
};

// scale * x where not negative, scale * alpha * expm1(input_scale * x) elsewhere.
template <class V>
ITERLAB_FN V elu_of(V x, V alpha, V scale, V input_scale) {
  return math::select_or_compute(math::ge(x, constant<V>(0)), x * scale,
                                 [&] { return math::expm1(x * input_scale) * (alpha * scale); });
}

struct Elu : Activation {
  static constexpr auto name = "elu";
  static constexpr auto torch_name = "nn.functional.elu";
  static constexpr auto doc =
      "scale * input where not negative, scale * alpha * expm1(input_scale * input) elsewhere.";
  static constexpr std::array parameters{
      Parameter{.name = "alpha", .kind = ParameterKind::Scalar, .default_value = "1"},
      Parameter{.name = "scale", .kind = ParameterKind::Scalar, .default_value = "1"},
      Parameter{.name = "input_scale", .kind = ParameterKind::Scalar, .default_value = "1"}};
  static constexpr double cost = 10;
  template <class V>
  ITERLAB_FN V operator()(V input, V alpha, V scale, V input_scale) const {
    return elu_of(input, alpha, scale, input_scale);
  }
};

struct Selu : Activation {
  static constexpr auto name = "selu";
  static constexpr auto torch_name = "nn.functional.selu";
  static constexpr auto doc =
      "elu of input with the alpha and scale of self-normalizing networks (Klambauer et al. 2017).";
  static constexpr double cost = 10;
  static constexpr double kAlpha = 1.6732632423543772848170429916717;
  static constexpr double kScale = 1.0507009873554804934193349852946;
  template <class V>
  ITERLAB_FN V operator()(V input) const {
    return elu_of(input, constant<V>(kAlpha), constant<V>(kScale), constant<V>(1));
  }
};

struct Celu : Activation {
  static constexpr auto name = "celu";
  static constexpr auto torch_name = "nn.functional.celu";
  static constexpr auto doc = "input where not negative, alpha * expm1(input / alpha) elsewhere.";
  static constexpr std::array parameters{
      Parameter{.name = "alpha", .kind = ParameterKind::Scalar, .default_value = "1"}};
  static constexpr double cost = 10;
  static constexpr ParameterCheck refuses_parameters = [](const Number* parameters, DType) {
    return Refusal{parameters[0].to<double>() == 0 ? "alpha other than 0" : nullptr};
  };
  template <class V>
  ITERLAB_FN V operator()(V input, V alpha) const {
    const V one = constant<V>(1);
    return elu_of(input, alpha, one, one / alpha);
  }
};

struct Gelu : Activation {
  static constexpr auto name = "gelu";
  static constexpr auto torch_name = "nn.functional.gelu";
  static constexpr auto doc = "input * ndtr(input), or an approximation of it with tanh.";
  static constexpr std::array parameters{Parameter{.name = "approximate",
                                                   .kind = ParameterKind::Choice,
                                                   .default_value = "'none'",
                                                   .keyword_only = true,
                                                   .choices = {"none", "tanh"},
                                                   .num_choices = 2}};
  static constexpr double cost = 4;
  static constexpr double kBeta = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;  // sqrt(2 / pi)
  static constexpr double kKappa = 0.044715;
  template <class V>
  ITERLAB_FN V operator()(V input, int64_t approximate) const {
    if (approximate == 0) return input * math::normal_cdf(input);
    const V half = constant<V>(0.5), one = constant<V>(1);
    const V inner = constant<V>(kBeta) * (input + constant<V>(kKappa) * (input * input * input));
    return half * input * (one + math::tanh(inner));
  }
};

struct Silu : Activation {
  static constexpr auto name = "silu";
  static constexpr auto torch_name = "nn.functional.silu";
  static constexpr auto doc = "input * sigmoid(input).";
  static constexpr double cost = 4;
  static constexpr auto dtypes = kFloatingAndComplex;
  static constexpr bool complex_simd = false;
  template <class V>
  ITERLAB_FN V operator()(V input) const {
    return times_sigmoid_of(input);
  }
};

struct Mish : Activation {
  static constexpr auto name = "mish";
  static constexpr auto torch_name = "nn.functional.mish";
  static constexpr auto doc = "input * tanh(softplus(input)).";
  static constexpr double cost = 30;
  template <class V>
  ITERLAB_FN V operator()(V input) const {
    return input * math::tanh(math::log1p(math::exp(input)));
  }
};

struct Softplus : Activation {
  static constexpr auto name = "softplus";
  static constexpr auto torch_name = "nn.functional.softplus";
  static constexpr auto doc =
      "log1p(exp(beta * input)) / beta; input itself where beta * input is above threshold.";
  static constexpr std::array parameters{
      Parameter{.name = "beta", .kind = ParameterKind::Scalar, .default_value = "1"},
      Parameter{.name = "threshold", .kind = ParameterKind::Scalar, .default_value = "20"}};
  static constexpr double cost = 12;
  static constexpr AutocastPolicy autocast{.cuda = Autocast::Float32};
  template <class V>
  ITERLAB_FN V operator()(V input, V beta, V threshold) const {
    const V scaled = input * beta;
    return math::select(math::gt(scaled, threshold), input, math::log1p(math::exp(scaled)) / beta);
  }
};

struct Softsign : Activation {
  static constexpr auto name = "softsign";
  static constexpr auto torch_name = "nn.functional.softsign";
  static constexpr auto doc = "input / (1 + |input|).";
  static constexpr double cost = 1.5;
  static constexpr auto promotion = Promotion::IntToFloat;
  static constexpr auto dtypes = kFloatingAndComplex;
  static constexpr bool complex_simd = false;
  template <class V>
  ITERLAB_FN V operator()(V input) const {
    return input / (constant<V>(1) + math::abs(input));
  }
};

struct Logsigmoid : Activation {
  static constexpr auto name = "logsigmoid";
  static constexpr auto torch_name = "nn.functional.logsigmoid";
  static constexpr auto doc = "log(sigmoid(input)), exact in both tails.";
  static constexpr double cost = 12;
  template <class V>
  ITERLAB_FN V operator()(V input) const {
    const V zero = constant<V>(0);
    return math::select(math::lt(input, zero), input, zero) -
           math::log1p(math::exp(math::neg(math::abs(input))));
  }
};

struct Hardsigmoid : Activation {
  static constexpr auto name = "hardsigmoid";
  static constexpr auto torch_name = "nn.functional.hardsigmoid";
  static constexpr auto doc = "input + 3 bounded by 0 and 6, divided by 6.";
  static constexpr double cost = 2;
  template <class V>
  ITERLAB_FN V operator()(V input) const {
    const V six = constant<V>(6);
    return bounded(input + constant<V>(3), constant<V>(0), six) / six;
  }
};

struct Hardswish : Activation {
  static constexpr auto name = "hardswish";
  static constexpr auto torch_name = "nn.functional.hardswish";
  static constexpr auto doc = "input * hardsigmoid(input).";
  static constexpr double cost = 2;
  template <class V>
  ITERLAB_FN V operator()(V input) const {
    const V six = constant<V>(6);
    return input * bounded(input + constant<V>(3), constant<V>(0), six) / six;
  }
};

struct Hardshrink : Activation {
  static constexpr auto name = "hardshrink";
  static constexpr auto torch_name = "nn.functional.hardshrink";
  static constexpr auto doc = "0 where |input| <= lambd, input elsewhere.";
  static constexpr std::array parameters{
      Parameter{.name = "lambd", .kind = ParameterKind::Scalar, .default_value = "0.5"}};
  static constexpr ParameterCheck refuses_parameters = halves_hold_them<1>;
  static constexpr bool rounds_parameters = true;
  template <class V>
  ITERLAB_FN V operator()(V input, V lambd) const {
    const auto inside = math::both(math::ge(input, math::neg(lambd)), math::le(input, lambd));
    return math::select(inside, constant<V>(0), input);
  }
};

struct Softshrink : Activation {
  static constexpr auto name = "softshrink";
  static constexpr auto torch_name = "nn.functional.softshrink";
  static constexpr auto doc = "input moved towards 0 by lambd, and 0 where |input| <= lambd.";
  static constexpr std::array parameters{
      Parameter{.name = "lambd", .kind = ParameterKind::Scalar, .default_value = "0.5"}};
  static constexpr ParameterCheck refuses_parameters = [](const Number* parameters, DType dtype) {
    const double lambd = parameters[0].to<double>();
    const bool in_range = lambd >= 0 && lambd <= std::numeric_limits<double>::max();
    return in_range ? halves_hold_them<1>(parameters, dtype)
                    : Refusal{"a finite lambd of at least 0"};
  };
  template <class V>
  ITERLAB_FN V operator()(V input, V lambd) const {
    const V below = math::neg(lambd);
    const V shrunk = math::select(math::gt(input, lambd), input - lambd, input + lambd);
    const auto inside = math::both(math::ge(input, below), math::le(input, lambd));
    return math::select(inside, constant<V>(0), shrunk);
  }
};

struct Tanhshrink : Activation {
  static constexpr auto name = "tanhshrink";
  static constexpr auto torch_name = "nn.functional.tanhshrink";
  static constexpr auto doc = "input - tanh(input).";
  static constexpr double cost = 5;
  static constexpr auto promotion = Promotion::IntToFloat;
  static constexpr auto dtypes = kFloatingAndComplex;
  static constexpr bool complex_simd = false;
  template <class V>
  ITERLAB_FN V operator()(V input) const {
    return around_inner<Tanhshrink>(input);
  }
  using Inner = Tanh;
  template <class V>
  ITERLAB_FN static V before(V input) {
    return input;
  }
  template <class V>
  ITERLAB_FN static V after(V input, V tanh) {
    return input - tanh;
  }
};

using ActivationOps = OpList<Relu, Relu6, Hardtanh, Threshold, LeakyRelu, Prelu, Elu, Selu, Celu,
                             Gelu, Silu, Mish, Softplus, Softsign, Logsigmoid, Hardsigmoid,
                             Hardswish, Hardshrink, Softshrink, Tanhshrink>;

}  // namespace iterlab::ops
