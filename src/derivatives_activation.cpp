// Derivatives of activations, each one pass of its backward operator, and of those operators, by
// ordinary differentiable formulas.
#include "iterlab/ops/activation_backward.h"
#include "src/call_operator.h"
#include "src/derivatives.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <numbers>

namespace iterlab {
namespace {

using at::Tensor;

// Of backward operators, input 0 is grad_output and input 1 what the activation saved.
const Tensor& grad_output(const Saved& saved) { return saved.inputs[0]; }
const Tensor& saved_value(const Saved& saved) { return saved.inputs[1]; }

c10::string_view approximate(const Saved& saved) {
  return ops::Gelu::parameters[0].choices[static_cast<size_t>(saved.number(0).integer)];
}

bool flag(const Saved& saved, size_t i) { return saved.number(i).integer != 0; }

std::optional<double> optional_number(const Saved& saved, size_t i) {
  const Number number = saved.number(i);
  return number.is_none() ? std::optional<double>() : std::optional<double>(number.to<double>());
}

// The gradient of `x` by the operator Backward, without parameters.
template <class Backward, size_t x>
Tensor plain(const Tensor& grad, const Saved& saved) {
  return call<Backward>(grad, saved.inputs[x]);
}

// The same with the first `count` parameters, which are numbers.
template <class Backward, size_t x, int count>
Tensor with_numbers(const Tensor& grad, const Saved& saved) {
  if constexpr (count == 1) {
    return call<Backward>(grad, saved.inputs[x], saved.scalar(0));
  } else {
    return call<Backward>(grad, saved.inputs[x], saved.scalar(0), saved.scalar(1));
  }
}

template <size_t x>
Tensor silu(const Tensor& grad, const Saved& saved) {
  return call<ops::SiluBackward>(grad, Tensor(saved.inputs[x].conj()));
}

template <size_t x>
Tensor gelu(const Tensor& grad, const Saved& saved) {
  return call<ops::GeluBackward>(grad, saved.inputs[x], approximate(saved));
}

template <size_t x>
Tensor leaky_relu(const Tensor& grad, const Saved& saved) {
  return call<ops::LeakyReluBackward>(grad, saved.inputs[x], saved.scalar(0), false);
}

template <size_t x>
Tensor elu(const Tensor& grad, const Saved& saved) {
  return call<ops::EluBackward>(grad, saved.inputs[x], saved.scalar(0), saved.scalar(1),
                                saved.scalar(2), x == 1 && flag(saved, 3));
}

Tensor selu(const Tensor& grad, const Saved& saved) {
  return call<ops::EluBackward>(grad, saved.inputs[0], at::Scalar(ops::Selu::kAlpha),
                                at::Scalar(ops::Selu::kScale), at::Scalar(1), false);
}

Tensor celu(const Tensor& grad, const Saved& saved) {
  const double alpha = saved.number(0).to<double>();
  return call<ops::EluBackward>(grad, saved.inputs[0], at::Scalar(alpha), at::Scalar(1),
                                at::Scalar(1 / alpha), false);
}

Tensor softsign(const Tensor& grad, const Saved& saved) {
  const Tensor& x = saved.inputs[0];
  const Tensor inverse = (1 + x.abs()).reciprocal();
  if (!x.is_complex()) return grad * inverse * inverse;
  return grad * inverse - at::real(grad * x.sgn().conj()) * x * inverse * inverse;
}

template <size_t x>
Tensor logit(const Tensor& grad, const Saved& saved) {
  return call<ops::LogitBackward>(grad, saved.inputs[x], optional_number(saved, 0));
}

// Second derivatives: `grad` is that of the backward operator's result.
template <Tensor (*curvature)(const Tensor& x, const Saved& saved)>
Tensor curved(const Tensor& grad, const Saved& saved) {
  return grad * grad_output(saved) * curvature(saved_value(saved), saved);
}

Tensor silu_second(const Tensor& grad, const Saved& saved) {
  const Tensor& x = saved_value(saved);
  const Tensor sigmoid = x.sigmoid();
  const Tensor curvature = sigmoid * (1 - sigmoid) * (2 + x * (1 - 2 * sigmoid));
  return grad * (grad_output(saved) * curvature).conj();
}

Tensor gelu_curvature(const Tensor& x, const Saved& saved) {
  const Tensor square = x * x;
  if (saved.number(0).integer == 0) {
    return (square * -0.5).exp() * (ops::Gelu::kBeta / 2) * (2 - square);
  }
  const double beta = ops::Gelu::kBeta, kappa = ops::Gelu::kKappa;
  const Tensor tanh = ((x + x * square * kappa) * beta).tanh();
  const Tensor first = (1 + (3 * kappa) * square) * beta, second = x * (6 * kappa * beta);
  return (1 - tanh * tanh) * (first + 0.5 * x * (second - 2 * tanh * first * first));
}

Tensor mish_curvature(const Tensor& x, const Saved&) {
  const Tensor sigmoid = x.sigmoid();
  const Tensor tanh = at::softplus(x).tanh();
  const Tensor slope = 1 - tanh * tanh;
  return slope * (2 * sigmoid + x * (sigmoid * (1 - sigmoid) - 2 * tanh * sigmoid * sigmoid));
}

Tensor elu_curvature(const Tensor& x, const Saved& saved) {
  const at::Scalar input_scale = saved.scalar(2);
  const Tensor negative = x <= 0;
  if (flag(saved, 3)) return negative * input_scale;
  const double slope = saved.number(0).to<double>() * saved.number(1).to<double>();
  const double scale = input_scale.toDouble();
  return at::where(negative, (x * scale).exp() * (slope * scale * scale), 0);
}

Tensor softplus_curvature(const Tensor& x, const Saved& saved) {
  const Tensor scaled = x * saved.scalar(0);
  const Tensor sigmoid = scaled.sigmoid();
  return at::where(scaled > saved.scalar(1), 0, sigmoid * (1 - sigmoid) * saved.scalar(0));
}

Tensor hardswish_curvature(const Tensor& x, const Saved&) {
  return ((x > -3).logical_and(x < 3)).to(x.scalar_type()) * (1.0 / 3);
}

Tensor logsigmoid_curvature(const Tensor& x, const Saved&) {
  const Tensor sigmoid = x.sigmoid();
  return -(sigmoid * (1 - sigmoid));
}

Tensor logit_curvature(const Tensor& x, const Saved& saved) {
  const double eps = optional_number(saved, 0).value_or(0);
  const Tensor product = x * (1 - x);
  const Tensor outside = (x < eps).logical_or(x > 1 - eps);
  return at::where(outside, 0, (2 * x - 1) / (product * product));
}

// sigmoid_backward and tanh_backward are functions of the conjugate of the output.
Tensor sigmoid_of_grad(const Tensor& grad, const Saved& saved) {
  const Tensor& y = saved_value(saved);
  return grad * ((1 - y) * y);
}
Tensor sigmoid_of_output(const Tensor& grad, const Saved& saved) {
  return grad.conj() * grad_output(saved) * (1 - 2 * saved_value(saved).conj());
}
Tensor tanh_of_grad(const Tensor& grad, const Saved& saved) {
  const Tensor& y = saved_value(saved);
  return grad * (1 - y * y);
}
Tensor tanh_of_output(const Tensor& grad, const Saved& saved) {
  return grad.conj() * grad_output(saved) * (-2 * saved_value(saved).conj());
}

constexpr Derivative activation(std::string_view op, GradFormula formula) {
  return {.op = op, .inputs = {formula}, .saves_inputs = 1};
}

// A backward operator: linear in grad_output, with `second` the derivative by the saved value.
constexpr Derivative backward(std::string_view op, GradFormula of_grad, GradFormula second) {
  return {.op = op, .inputs = {of_grad, second}, .saves_inputs = 0b11};
}

constexpr Derivative of_activations[] = {
    {.op = "relu",
     .inputs = {[](const Tensor& grad, const Saved& saved) {
       return call<ops::ThresholdBackward>(grad, saved.result, at::Scalar(0));
     }},
     .saves_result = true},
    activation("relu6",
               [](const Tensor& grad, const Saved& saved) {
                 return call<ops::HardtanhBackward>(grad, saved.inputs[0], at::Scalar(0),
                                                    at::Scalar(6));
               }),
    activation("hardtanh", with_numbers<ops::HardtanhBackward, 0, 2>),
    activation("threshold", with_numbers<ops::ThresholdBackward, 0, 1>),
    activation("leaky_relu", leaky_relu<0>),
    {.op = "_prelu_kernel",
     .inputs = {[](const Tensor& grad, const Saved& saved) {
                  return at::where(saved.inputs[0] > 0, grad, grad * saved.inputs[1]);
                },
                [](const Tensor& grad, const Saved& saved) {
                  return at::where(saved.inputs[0] > 0, 0, grad * saved.inputs[0]);
                }},
     .saves_inputs = 0b11},
    activation("elu", elu<0>),
    activation("selu", selu),
    activation("celu", celu),
    activation("gelu", gelu<0>),
    activation("silu", silu<0>),
    activation("mish", plain<ops::MishBackward, 0>),
    activation("softplus", with_numbers<ops::SoftplusBackward, 0, 2>),
    {.op = "softsign", .inputs = {softsign}, .saves_inputs = 1, .symmetric_inputs = 1},
    activation("logsigmoid", plain<ops::LogsigmoidBackward, 0>),
    activation("hardsigmoid", plain<ops::HardsigmoidBackward, 0>),
    activation("hardswish", plain<ops::HardswishBackward, 0>),
    activation("hardshrink", with_numbers<ops::HardshrinkBackward, 0, 1>),
    activation("softshrink", with_numbers<ops::SoftshrinkBackward, 0, 1>),
    activation("tanhshrink",
               [](const Tensor& grad, const Saved& saved) {
                 return grad * saved.inputs[0].tanh().square().conj();
               }),

    backward("silu_backward", silu<1>, silu_second),
    backward("gelu_backward", gelu<1>, curved<gelu_curvature>),
    backward("mish_backward", plain<ops::MishBackward, 1>, curved<mish_curvature>),
    {.op = "sigmoid_backward",
     .inputs = {sigmoid_of_grad, sigmoid_of_output},
     .saves_inputs = 0b11,
     .symmetric_inputs = 0b10},
    {.op = "tanh_backward",
     .inputs = {tanh_of_grad, tanh_of_output},
     .saves_inputs = 0b11,
     .symmetric_inputs = 0b10},
    backward("elu_backward", elu<1>, curved<elu_curvature>),
    backward("softplus_backward", with_numbers<ops::SoftplusBackward, 1, 2>,
             curved<softplus_curvature>),
    backward("hardtanh_backward", with_numbers<ops::HardtanhBackward, 1, 2>, zero),
    backward("hardsigmoid_backward", plain<ops::HardsigmoidBackward, 1>, zero),
    backward("hardswish_backward", plain<ops::HardswishBackward, 1>, curved<hardswish_curvature>),
    backward("hardshrink_backward", with_numbers<ops::HardshrinkBackward, 1, 1>, zero),
    backward("softshrink_backward", with_numbers<ops::SoftshrinkBackward, 1, 1>, zero),
    backward("threshold_backward", with_numbers<ops::ThresholdBackward, 1, 1>, zero),
    backward("leaky_relu_backward", leaky_relu<1>, zero),
    backward("logsigmoid_backward", plain<ops::LogsigmoidBackward, 1>,
             curved<logsigmoid_curvature>),
    backward("logit_backward", logit<1>, curved<logit_curvature>),
};

}  // namespace

std::span<const Derivative> activation_derivatives() { return of_activations; }

}  // namespace iterlab
