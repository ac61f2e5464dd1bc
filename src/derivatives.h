// Derivatives of the built-in operators, by name: one formula for each differentiable input.
#pragma once

#include "src/operands.h"

#include <ATen/core/Tensor.h>

#include <array>
#include <span>
#include <string_view>
#include <vector>

namespace iterlab {

// What a formula may use. Only what the derivative declares is there; the rest is undefined.
struct Saved {
  std::array<at::Tensor, kMaxOperands> inputs;
  at::Tensor result;
  std::array<Number, kMaxParameters> parameters;

  at::Scalar scalar(int i) const { return as_scalar(parameters[static_cast<size_t>(i)]); }
};

// The gradient of an input, given that of the result; linear in `grad`. Broadcasting, dtype and the
// real part for real inputs are the caller's business. For complex numbers: the conjugate Wirtinger
// convention, as everywhere in torch.
using GradFormula = at::Tensor (*)(const at::Tensor& grad, const Saved& saved);

// Note [One formula for both modes]
// An elementwise operator's Jacobian is diagonal, so forward mode needs no formula of its own: the
// tangent of the result is the sum over inputs of conj(formula(conj(tangent))), and conj does
// nothing to real numbers. That holds for functions of complex numbers that are differentiable as
// such, and for those that return real numbers. Where instead the Jacobian over real and imaginary
// parts is a symmetric matrix (z / |z|, a function of conj(z)), the tangent is formula(tangent).
struct Derivative {
  std::string_view op;
  std::array<GradFormula, kMaxOperands> inputs{};  // null: not differentiable
  uint32_t saves_inputs = 0;                       // bit i: formulas read input i
  bool saves_result = false;
  uint32_t symmetric_inputs = 0;  // bit i: see Note [One formula for both modes]
};

// Tables of their own, which find_derivative joins.
std::span<const Derivative> unary_derivatives();
std::span<const Derivative> activation_derivatives();
std::span<const Derivative> binary_derivatives();

// Null where the operator has no derivative.
const Derivative* find_derivative(std::string_view op);

}  // namespace iterlab
