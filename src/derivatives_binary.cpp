// Derivatives of the operators with two and three operands, and of those that move data.
#include "iterlab/ops/binary.h"
#include "src/call_operator.h"
#include "src/derivatives.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/div.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/isnan.h>
#include <ATen/ops/lgamma.h>
#include <ATen/ops/log.h>
#include <ATen/ops/logical_and.h>
#include <ATen/ops/logical_or.h>
#include <ATen/ops/masked_fill.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/special_xlog1py.h>
#include <ATen/ops/special_zeta.h>
#include <ATen/ops/where.h>
#include <ATen/ops/xlogy.h>
#include <ATen/ops/zeros.h>

namespace iterlab {
namespace {

using at::Tensor;

// Where torch raises too.
Tensor undefined(const Tensor&, const Saved&) {
  TORCH_CHECK_NOT_IMPLEMENTED(false, "iterlab: the derivative for this input is not implemented.");
}

// A number's tensor, which is on the CPU, on the device of the tensor beside it: a few of ATen's
// CUDA kernels (logical_and, div with rounding) do not take one first. Without a copy between
// devices, which a CUDA graph could not record.
Tensor beside(const Tensor& number, const Tensor& tensor) {
  if (number.device() == tensor.device()) return number;
  return number + at::zeros({}, tensor.options().dtype(number.scalar_type()));
}

// grad * scale, without a pass over memory where scale is 1.
Tensor scaled(const Tensor& grad, const at::Scalar& scale) {
  const bool is_one = !scale.isSymbolic() && scale.equal(1);
  return is_one ? grad : grad * scale.conj();
}

Tensor divide_grad_input(const Tensor& grad, const Saved& saved) {
  return grad / saved.inputs[1].conj();
}
Tensor divide_grad_other(const Tensor& grad, const Saved& saved) {
  return -grad * ((saved.inputs[0] / saved.inputs[1]) / saved.inputs[1]).conj();
}

// Of d/dx x^y = y x^(y - 1); 0 where y is 0, for which x^(y - 1) may be infinite.
Tensor pow_grad_input(const Tensor& grad, const Saved& saved) {
  const Tensor &x = saved.inputs[0], &y = saved.inputs[1];
  return at::where(y == 0, at::zeros({}, grad.options()), grad * (y * at::pow(x, y - 1)).conj());
}

// Of d/dy x^y = x^y log(x); 0 where x is 0 and y is not negative, for which log(x) is infinite.
Tensor pow_grad_exponent(const Tensor& grad, const Saved& saved) {
  const Tensor& y = saved.inputs[1];
  const Tensor x = beside(saved.inputs[0], y);
  const Tensor vanishes = c10::isComplexType(y.scalar_type())
                              ? at::logical_and(x == 0, at::real(y) >= 0)
                              : at::logical_and(x == 0, y >= 0);
  return at::where(vanishes, at::zeros({}, grad.options()),
                   grad * (saved.result * at::log(x)).conj());
}

// 1 / (input^2 + other^2), 0 at the origin.
Tensor atan2_scale(const Saved& saved) {
  const Tensor squares = saved.inputs[0] * saved.inputs[0] + saved.inputs[1] * saved.inputs[1];
  return squares.reciprocal().masked_fill(squares == 0, 0);
}

// Ties share the gradient in halves.
Tensor split_ties(const Tensor& grad, const Saved& saved, const Tensor& loses) {
  const Tensor tie = saved.inputs[0] == saved.inputs[1];
  return at::where(tie, grad / 2, grad).masked_fill(loses, 0);
}

Tensor where_true(const Tensor& condition, const Tensor& grad) {
  return at::where(condition, grad, at::zeros({}, grad.options()));
}

// Whether fmax (fmin) takes its first input.
Tensor fmax_takes_input(const Saved& saved) {
  return at::logical_or(saved.inputs[0] >= saved.inputs[1], at::isnan(saved.inputs[1]));
}
Tensor fmin_takes_input(const Saved& saved) {
  return at::logical_or(saved.inputs[0] <= saved.inputs[1], at::isnan(saved.inputs[1]));
}

Tensor gamma_density(const Tensor& grad, const Saved& saved) {
  const Tensor &a = saved.inputs[0], &x = saved.inputs[1];
  return grad * at::exp((a - 1) * at::log(x) - x - at::lgamma(a));
}

constexpr Derivative of_binary[] = {
    {.op = "add",
     .inputs = {unchanged, [](const Tensor& grad,
                         const Saved& saved) { return scaled(grad, saved.scalar(0)); }}},
    {.op = "sub",
     .inputs = {unchanged, [](const Tensor& grad,
                         const Saved& saved) { return -scaled(grad, saved.scalar(0)); }}},
    {.op = "rsub",
     .inputs = {[](const Tensor& grad,
                   const Saved& saved) { return -scaled(grad, saved.scalar(0)); },
                unchanged}},
    {.op = "mul",
     .inputs = {
         [](const Tensor& grad, const Saved& saved) { return grad * saved.inputs[1].conj(); },
         [](const Tensor& grad, const Saved& saved) { return grad * saved.inputs[0].conj(); }},
     .saves_inputs = 0b11},
    // In place, a tensor of ones and zeros.
    {.op = "eq", .inputs = {zero, zero}},
    {.op = "ne", .inputs = {zero, zero}},
    {.op = "lt", .inputs = {zero, zero}},
    {.op = "le", .inputs = {zero, zero}},
    {.op = "gt", .inputs = {zero, zero}},
    {.op = "ge", .inputs = {zero, zero}},
    {.op = "true_divide", .inputs = {divide_grad_input, divide_grad_other}, .saves_inputs = 0b11},
    {.op = "div",  // rounded quotients are flat
     .inputs = {[](const Tensor& grad, const Saved& saved) {
                  return saved.number(0).integer == 0 ? divide_grad_input(grad, saved)
                                                          : zero(grad, saved);
                },
                [](const Tensor& grad, const Saved& saved) {
                  return saved.number(0).integer == 0 ? divide_grad_other(grad, saved)
                                                          : zero(grad, saved);
                }},
     .saves_inputs = 0b11},
    {.op = "remainder",
     .inputs = {unchanged,
                [](const Tensor& grad, const Saved& saved) {
                  const Tensor& y = saved.inputs[1];
                  return -grad * at::div(beside(saved.inputs[0], y), y, "floor");
                }},
     .saves_inputs = 0b11},
    {.op = "fmod",
     .inputs = {unchanged,
                [](const Tensor& grad, const Saved& saved) {
                  const Tensor& y = saved.inputs[1];
                  return -grad * at::div(beside(saved.inputs[0], y), y, "trunc");
                }},
     .saves_inputs = 0b11},
    {.op = "pow",
     .inputs = {pow_grad_input, pow_grad_exponent},
     .saves_inputs = 0b11,
     .saves_result = true},
    {.op = "ldexp",
     .inputs = {[](const Tensor& grad, const Saved& saved) {
                  const Tensor& exponent = saved.inputs[1];
                  return exponent.is_complex() ? grad * at::pow(2, exponent).conj()
                                               : call<ops::Ldexp>(grad, exponent);
                },
                [](const Tensor& grad, const Saved& saved) {
                  return grad * (saved.result * 0.693147180559945309417).conj();
                }},
     .saves_inputs = 0b10,
     .saves_result = true},
    {.op = "atan2",
     .inputs = {[](const Tensor& grad, const Saved& saved) {
                  return grad * (saved.inputs[1] * atan2_scale(saved));
                },
                [](const Tensor& grad, const Saved& saved) {
                  return grad * (-saved.inputs[0] * atan2_scale(saved));
                }},
     .saves_inputs = 0b11},
    {.op = "hypot",
     .inputs = {[](const Tensor& grad,
                   const Saved& saved) { return grad * (saved.inputs[0] / saved.result); },
                [](const Tensor& grad, const Saved& saved) {
                  return grad * (saved.inputs[1] / saved.result);
                }},
     .saves_inputs = 0b11,
     .saves_result = true},
    {.op = "copysign",
     .inputs = {[](const Tensor& grad, const Saved& saved) {
                  const Tensor& input = saved.inputs[0];
                  return grad * (saved.result / input).masked_fill(input == 0, 0);
                },
                zero},
     .saves_inputs = 0b01,
     .saves_result = true},
    {.op = "nextafter",
     .inputs = {[](const Tensor& grad, const Saved& saved) {
                  return grad.masked_fill(saved.inputs[0] == saved.inputs[1], 0);
                },
                zero},
     .saves_inputs = 0b11},
    {.op = "maximum",
     .inputs = {[](const Tensor& grad, const Saved& saved) {
                  return split_ties(grad, saved, saved.inputs[0] < saved.inputs[1]);
                },
                [](const Tensor& grad, const Saved& saved) {
                  return split_ties(grad, saved, saved.inputs[0] > saved.inputs[1]);
                }},
     .saves_inputs = 0b11},
    {.op = "minimum",
     .inputs = {[](const Tensor& grad, const Saved& saved) {
                  return split_ties(grad, saved, saved.inputs[0] > saved.inputs[1]);
                },
                [](const Tensor& grad, const Saved& saved) {
                  return split_ties(grad, saved, saved.inputs[0] < saved.inputs[1]);
                }},
     .saves_inputs = 0b11},
    {.op = "fmax",
     .inputs = {[](const Tensor& grad,
                   const Saved& saved) { return where_true(fmax_takes_input(saved), grad); },
                [](const Tensor& grad, const Saved& saved) {
                  return grad.masked_fill(fmax_takes_input(saved), 0);
                }},
     .saves_inputs = 0b11},
    {.op = "fmin",
     .inputs = {[](const Tensor& grad,
                   const Saved& saved) { return where_true(fmin_takes_input(saved), grad); },
                [](const Tensor& grad, const Saved& saved) {
                  return grad.masked_fill(fmin_takes_input(saved), 0);
                }},
     .saves_inputs = 0b11},
    {.op = "logaddexp",
     .inputs = {[](const Tensor& grad, const Saved& saved) {
                  return grad / (1 + at::exp(saved.inputs[1] - saved.inputs[0])).conj();
                },
                [](const Tensor& grad, const Saved& saved) {
                  return grad / (1 + at::exp(saved.inputs[0] - saved.inputs[1])).conj();
                }},
     .saves_inputs = 0b11},
    {.op = "logaddexp2",
     .inputs = {[](const Tensor& grad, const Saved& saved) {
                  return grad / (1 + at::pow(2, saved.inputs[1] - saved.inputs[0]));
                },
                [](const Tensor& grad, const Saved& saved) {
                  return grad / (1 + at::pow(2, saved.inputs[0] - saved.inputs[1]));
                }},
     .saves_inputs = 0b11},
    {.op = "xlogy",
     .inputs = {[](const Tensor& grad, const Saved& saved) {
                  const Tensor &x = saved.inputs[0], &y = saved.inputs[1];
                  return at::xlogy(grad, y).masked_fill(at::logical_and(x == 0, y <= 0), 0);
                },
                [](const Tensor& grad, const Saved& saved) {
                  return grad * saved.inputs[0] / saved.inputs[1];
                }},
     .saves_inputs = 0b11},
    {.op = "special_xlog1py",
     .inputs = {[](const Tensor& grad, const Saved& saved) {
                  const Tensor &x = saved.inputs[0], &y = saved.inputs[1];
                  return at::special_xlog1py(grad, y).masked_fill(
                      at::logical_and(x == 0, y <= -1), 0);
                },
                [](const Tensor& grad, const Saved& saved) {
                  return grad * saved.inputs[0] / (saved.inputs[1] + 1);
                }},
     .saves_inputs = 0b11},
    {.op = "special_zeta",
     .inputs = {undefined,
                [](const Tensor& grad, const Saved& saved) {
                  const Tensor& x = saved.inputs[0];
                  return grad * -x * at::special_zeta(x + 1., saved.inputs[1]);
                }},
     .saves_inputs = 0b11},
    {.op = "igamma",
     .inputs = {undefined, gamma_density},
     .saves_inputs = 0b11},
    {.op = "igammac",
     .inputs = {undefined, [](const Tensor& grad,
                              const Saved& saved) { return -gamma_density(grad, saved); }},
     .saves_inputs = 0b11},
    {.op = "where",
     .inputs = {nullptr,
                [](const Tensor& grad, const Saved& saved) {
                  return where_true(saved.inputs[0], grad);
                },
                [](const Tensor& grad, const Saved& saved) {
                  return grad.masked_fill(saved.inputs[0].to(at::kBool), 0);
                }},
     .saves_inputs = 0b001},
    {.op = "masked_fill",
     .inputs = {[](const Tensor& grad,
                   const Saved& saved) { return grad.masked_fill(saved.inputs[1], 0); },
                nullptr,
                [](const Tensor& grad, const Saved& saved) {
                  return where_true(saved.inputs[1], grad);
                }},
     .saves_inputs = 0b010},
    {.op = "clamp_min",
     .inputs = {[](const Tensor& grad, const Saved& saved) {
                  return where_true(saved.inputs[0] >= saved.inputs[1], grad);
                },
                [](const Tensor& grad, const Saved& saved) {
                  return where_true(saved.inputs[0] < saved.inputs[1], grad);
                }},
     .saves_inputs = 0b11},
    {.op = "clamp_max",
     .inputs = {[](const Tensor& grad, const Saved& saved) {
                  return where_true(saved.inputs[0] <= saved.inputs[1], grad);
                },
                [](const Tensor& grad, const Saved& saved) {
                  return where_true(saved.inputs[0] > saved.inputs[1], grad);
                }},
     .saves_inputs = 0b11},
    {.op = "clamp_between",
     .inputs = {[](const Tensor& grad, const Saved& saved) {
                  const auto& [x, min, max] = std::tie(saved.inputs[0], saved.inputs[1], saved.inputs[2]);
                  return where_true(at::logical_and(x >= min, x <= max), grad);
                },
                [](const Tensor& grad, const Saved& saved) {
                  const auto& [x, min, max] = std::tie(saved.inputs[0], saved.inputs[1], saved.inputs[2]);
                  return where_true(at::logical_and(min < max, x < min), grad);
                },
                [](const Tensor& grad, const Saved& saved) {
                  const auto& [x, min, max] = std::tie(saved.inputs[0], saved.inputs[1], saved.inputs[2]);
                  return where_true(at::logical_or(max < min, x > max), grad);
                }},
     .saves_inputs = 0b111},
    {.op = "lerp",
     .inputs = {[](const Tensor& grad,
                   const Saved& saved) { return grad * (1 - saved.inputs[2]).conj(); },
                [](const Tensor& grad,
                   const Saved& saved) { return grad * saved.inputs[2].conj(); },
                [](const Tensor& grad, const Saved& saved) {
                  return grad * (saved.inputs[1] - saved.inputs[0]).conj();
                }},
     .saves_inputs = 0b111},
    {.op = "addcmul",
     .inputs = {unchanged,
                [](const Tensor& grad, const Saved& saved) {
                  return scaled(grad * saved.inputs[2].conj(), saved.scalar(0));
                },
                [](const Tensor& grad, const Saved& saved) {
                  return scaled(grad * saved.inputs[1].conj(), saved.scalar(0));
                }},
     .saves_inputs = 0b110},
    {.op = "addcdiv",
     .inputs = {unchanged,
                [](const Tensor& grad, const Saved& saved) {
                  return scaled(grad / saved.inputs[2].conj(), saved.scalar(0));
                },
                [](const Tensor& grad, const Saved& saved) {
                  const Tensor &x = saved.inputs[1], &y = saved.inputs[2];
                  return scaled(-grad * (x / (y * y)).conj(), saved.scalar(0));
                }},
     .saves_inputs = 0b110},
    {.op = "to", .inputs = {unchanged}},
    {.op = "clone", .inputs = {unchanged}},
    {.op = "copy", .inputs = {zero, unchanged}},
    {.op = "fill", .inputs = {zero, unchanged}},
};

}  // namespace

std::span<const Derivative> binary_derivatives() { return of_binary; }

}  // namespace iterlab
