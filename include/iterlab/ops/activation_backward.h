// The backward operators of activations: the gradient of the input in one pass. To add one: a
// struct, and its name in the list at the end.
#pragma once

#include "iterlab/math_elementary.h"
#include "iterlab/op.h"
#include "iterlab/ops/activation.h"

#include <numbers>

namespace iterlab::ops {

// grad_output times the derivative at input.
struct Backward : Binary {
  static constexpr std::array inputs{"grad_output", "input"};
  static constexpr auto dtypes = kFloating;
  static constexpr uint8_t variants = kFunctional | kOut;
};

struct SiluBackward : Backward {
  static constexpr auto name = "silu_backward";
  static constexpr auto torch_name = "ops.aten.silu_backward";
  static constexpr auto doc = "The gradient of the input of silu, given that of its output.";
  static constexpr double cost = 5;
  static constexpr auto dtypes = kFloatingAndComplex;
  static constexpr bool complex_simd = false;
  template <class V>
  ITERLAB_FN V operator()(V grad_output, V input) const {
    const V one = constant<V>(1);
    const V sigmoid = sigmoid_of(input);
    return grad_output * sigmoid * (one + input * (one - sigmoid));
  }
};

struct GeluBackward : Backward {
  static constexpr auto name = "gelu_backward";
  static constexpr auto torch_name = "ops.aten.gelu_backward";
  static constexpr auto doc = "The gradient of the input of gelu, given that of its output.";
  static constexpr std::array parameters{Parameter{.name = "approximate",
                                                   .kind = ParameterKind::Choice,
                                                   .default_value = "'none'",
                                                   .keyword_only = true,
                                                   .choices = {"none", "tanh"},
                                                   .num_choices = 2}};
  static constexpr double cost = 14;
  template <class V>
  ITERLAB_FN V operator()(V grad_output, V input, int64_t approximate) const {
    const V half = constant<V>(0.5), one = constant<V>(1);
    if (approximate == 0) {
      const V cdf = math::normal_cdf(input);
      const V pdf = math::exp(input * input * constant<V>(-0.5)) * constant<V>(Gelu::kBeta / 2);
      return grad_output * (cdf + input * pdf);
    }
    const V beta = constant<V>(Gelu::kBeta), kappa = constant<V>(Gelu::kKappa);
    const V square = input * input;
    const V tanh = math::tanh(beta * (input + kappa * (square * input)));
    const V inner_derivative = beta * (one + constant<V>(3) * kappa * square);
    return grad_output *
           (half * (one + tanh) + half * input * (one - tanh * tanh) * inner_derivative);
  }
};

struct MishBackward : Backward {
  static constexpr auto name = "mish_backward";
  static constexpr auto torch_name = "ops.aten.mish_backward";
  static constexpr auto doc = "The gradient of the input of mish, given that of its output.";
  static constexpr double cost = 34;
  template <class V>
  ITERLAB_FN V operator()(V grad_output, V input) const {
    const V one = constant<V>(1);
    const V sigmoid = sigmoid_of(input);
    const V tanh = math::tanh(math::log1p(math::exp(input)));
    return grad_output * (tanh + input * sigmoid * (one - tanh * tanh));
  }
};

struct SigmoidBackward : Backward {
  static constexpr auto name = "sigmoid_backward";
  static constexpr auto torch_name = "ops.aten.sigmoid_backward";
  static constexpr auto doc =
      "The gradient of the input of sigmoid, given that of its output and the output.";
  static constexpr double cost = 1;
  static constexpr std::array inputs{"grad_output", "output"};
  static constexpr auto dtypes = kFloatingAndComplex;
  template <class V>
  ITERLAB_FN V operator()(V grad_output, V output) const {
    return grad_output * math::conj((constant<V>(1) - output) * output);
  }
};

struct TanhBackward : Backward {
  static constexpr auto name = "tanh_backward";
  static constexpr auto torch_name = "ops.aten.tanh_backward";
  static constexpr auto doc =
      "The gradient of the input of tanh, given that of its output and the output.";
  static constexpr double cost = 1;
  static constexpr std::array inputs{"grad_output", "output"};
  static constexpr auto dtypes = kFloatingAndComplex;
  template <class V>
  ITERLAB_FN V operator()(V grad_output, V output) const {
    return grad_output * math::conj(constant<V>(1) - output * output);
  }
};

struct EluBackward : Backward {
  static constexpr auto name = "elu_backward";
  static constexpr const char* torch_name = nullptr;
  static constexpr auto doc =
      "The gradient of the input of elu, given grad_output, and its input or, if is_result, its "
      "output.";
  static constexpr std::array parameters{
      Parameter{.name = "alpha", .kind = ParameterKind::Scalar, .default_value = "1"},
      Parameter{.name = "scale", .kind = ParameterKind::Scalar, .default_value = "1"},
      Parameter{.name = "input_scale", .kind = ParameterKind::Scalar, .default_value = "1"},
      Parameter{.name = "is_result", .kind = ParameterKind::Bool, .default_value = "False"}};
  static constexpr ParameterCheck refuses_parameters = [](const Number* parameters, DType) {
    const bool ambiguous = parameters[3].integer != 0 && parameters[0].to<double>() < 0;
    return Refusal{ambiguous ? "no negative alpha where the result is given" : nullptr};
  };
  static constexpr double cost = 4;
  static constexpr std::array inputs{"grad_output", "self_or_result"};
  template <class V>
  ITERLAB_FN V operator()(V grad_output, V self_or_result, V alpha, V scale, V input_scale,
                          int64_t is_result) const {
    const V slope = alpha * scale, scaled = grad_output * input_scale;
    const auto above = math::negated(math::le(self_or_result, constant<V>(0)));
    return math::select_or_compute(above, grad_output * scale, [&] {
      return is_result != 0 ? scaled * (self_or_result + slope)
                            : scaled * slope * math::exp(self_or_result * input_scale);
    });
  }
};

struct SoftplusBackward : Backward {
  static constexpr auto name = "softplus_backward";
  static constexpr auto torch_name = "ops.aten.softplus_backward";
  static constexpr auto doc = "The gradient of the input of softplus, given that of its output.";
  static constexpr std::array parameters{
      Parameter{.name = "beta", .kind = ParameterKind::Scalar},
      Parameter{.name = "threshold", .kind = ParameterKind::Scalar}};
  static constexpr double cost = 5;
  template <class V>
  ITERLAB_FN V operator()(V grad_output, V input, V beta, V threshold) const {
    const V scaled = input * beta;
    const V z = math::exp(scaled);
    return math::select(math::gt(scaled, threshold), grad_output,
                        grad_output * z / (z + constant<V>(1)));
  }
};

struct HardtanhBackward : Backward {
  static constexpr auto name = "hardtanh_backward";
  static constexpr auto torch_name = "ops.aten.hardtanh_backward";
  static constexpr auto doc = "The gradient of the input of hardtanh, given that of its output.";
  static constexpr std::array parameters{
      Parameter{.name = "min_val", .kind = ParameterKind::Scalar},
      Parameter{.name = "max_val", .kind = ParameterKind::Scalar}};
  template <class V>
  ITERLAB_FN V operator()(V grad_output, V input, V min_val, V max_val) const {
    const auto inside = math::both(math::gt(input, min_val), math::lt(input, max_val));
    return math::select(inside, grad_output, constant<V>(0));
  }
};

struct HardsigmoidBackward : Backward {
  static constexpr auto name = "hardsigmoid_backward";
  static constexpr auto torch_name = "ops.aten.hardsigmoid_backward";
  static constexpr auto doc = "The gradient of the input of hardsigmoid, given that of its output.";
  template <class V>
  ITERLAB_FN V operator()(V grad_output, V input) const {
    const V three = constant<V>(3);
    const auto inside = math::both(math::gt(input, math::neg(three)), math::lt(input, three));
    return math::select(inside, grad_output * constant<V>(1.0 / 6), constant<V>(0));
  }
};

struct HardswishBackward : Backward {
  static constexpr auto name = "hardswish_backward";
  static constexpr auto torch_name = "ops.aten.hardswish_backward";
  static constexpr auto doc = "The gradient of the input of hardswish, given that of its output.";
  static constexpr double cost = 1.7;
  template <class V>
  ITERLAB_FN V operator()(V grad_output, V input) const {
    const V three = constant<V>(3);
    const V inner = grad_output * (input / three + constant<V>(0.5));
    const V right = math::select(math::ge(input, three), grad_output, inner);
    return math::select(math::le(input, math::neg(three)), constant<V>(0), right);
  }
};

// 0 where |x| <= lambd, and for nan.
template <class V>
ITERLAB_FN V shrink_gradient(V grad, V x, V lambd) {
  const auto outside = math::either(math::lt(x, math::neg(lambd)), math::gt(x, lambd));
  return math::select(outside, grad, constant<V>(0));
}

struct HardshrinkBackward : Backward {
  static constexpr auto name = "hardshrink_backward";
  static constexpr auto torch_name = "ops.aten.hardshrink_backward";
  static constexpr auto doc = "The gradient of the input of hardshrink, given that of its output.";
  static constexpr std::array parameters{Parameter{.name = "lambd", .kind = ParameterKind::Scalar}};
  static constexpr ParameterCheck refuses_parameters = halves_hold_them<1>;
  static constexpr bool rounds_parameters = true;
  template <class V>
  ITERLAB_FN V operator()(V grad_output, V input, V lambd) const {
    return shrink_gradient(grad_output, input, lambd);
  }
};

struct SoftshrinkBackward : Backward {
  static constexpr auto name = "softshrink_backward";
  static constexpr auto torch_name = "ops.aten.softshrink_backward";
  static constexpr auto doc = "The gradient of the input of softshrink, given that of its output.";
  static constexpr std::array parameters{Parameter{.name = "lambd", .kind = ParameterKind::Scalar}};
  static constexpr ParameterCheck refuses_parameters = halves_hold_them<1>;
  static constexpr bool rounds_parameters = true;
  template <class V>
  ITERLAB_FN V operator()(V grad_output, V input, V lambd) const {
    return shrink_gradient(grad_output, input, lambd);
  }
};

struct ThresholdBackward : Backward {
  static constexpr auto name = "threshold_backward";
  static constexpr auto torch_name = "ops.aten.threshold_backward";
  static constexpr auto doc = "The gradient of the input of threshold, given that of its output.";
  static constexpr std::array parameters{
      Parameter{.name = "threshold", .kind = ParameterKind::Scalar}};
  static constexpr auto dtypes = kSigned | DTypeSet{DType::Byte} | kFloating;
  template <class V>
  ITERLAB_FN V operator()(V grad_output, V input, V threshold) const {
    return math::select(math::le(input, threshold), constant<V>(0), grad_output);
  }
};

struct LeakyReluBackward : Backward {
  static constexpr auto name = "leaky_relu_backward";
  static constexpr auto torch_name = "ops.aten.leaky_relu_backward";
  static constexpr auto doc = "The gradient of the input of leaky_relu, given that of its output.";
  static constexpr std::array parameters{
      Parameter{.name = "negative_slope", .kind = ParameterKind::Scalar},
      Parameter{.name = "self_is_result", .kind = ParameterKind::Bool, .default_value = "False"}};
  static constexpr ParameterCheck refuses_parameters = [](const Number* parameters, DType) {
    const bool ambiguous = parameters[1].integer != 0 && parameters[0].to<double>() < 0;
    return Refusal{ambiguous ? "no negative slope where input is the result" : nullptr};
  };
  template <class V>
  ITERLAB_FN V operator()(V grad_output, V input, V negative_slope, int64_t) const {
    return math::select(math::gt(input, constant<V>(0)), grad_output, grad_output * negative_slope);
  }
};

struct LogsigmoidBackward : Backward {
  static constexpr auto name = "logsigmoid_backward";
  static constexpr const char* torch_name = nullptr;
  static constexpr auto doc = "The gradient of the input of logsigmoid, given that of its output.";
  static constexpr double cost = 4.5;
  template <class V>
  ITERLAB_FN V operator()(V grad_output, V input) const {
    const V zero = constant<V>(0), one = constant<V>(1);
    const V z = math::exp(math::neg(math::abs(input)));  // sigmoid(-input), without overflow
    return grad_output * math::select(math::lt(input, zero), one, z) / (one + z);
  }
};

struct LogitBackward : Backward {
  static constexpr auto name = "logit_backward";
  static constexpr auto torch_name = "ops.aten.logit_backward";
  static constexpr auto doc = "The gradient of the input of logit, given that of its output.";
  static constexpr std::array parameters{
      Parameter{.name = "eps", .kind = ParameterKind::OptionalFloat, .default_value = "None"}};
  static constexpr double cost = 1.6;
  template <class V>
  ITERLAB_FN V operator()(V grad_output, V input, Optional<V> eps) const {
    const V zero = constant<V>(0), one = constant<V>(1);
    const V low = eps.given ? eps.value : zero;
    const V beyond = eps.given ? zero : constant<V>(std::numeric_limits<scalar_of<V>>::quiet_NaN());
    const auto inside = math::both(math::ge(input, low), math::le(input, one - low));
    return math::select(inside, grad_output / (input * (one - input)), beyond);
  }
};

using ActivationBackwardOps =
    OpList<SiluBackward, GeluBackward, MishBackward, SigmoidBackward, TanhBackward, EluBackward,
           SoftplusBackward, HardtanhBackward, HardsigmoidBackward, HardswishBackward,
           HardshrinkBackward, SoftshrinkBackward, ThresholdBackward, LeakyReluBackward,
           LogsigmoidBackward, LogitBackward>;

}  // namespace iterlab::ops
