// Derivatives of the built-in operators, by name: one formula for each differentiable input.
#pragma once

#include "src/operands.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <array>
#include <span>
#include <string_view>
#include <vector>

namespace iterlab {

// The parameters of a call. Note [Symbolic numbers]
class SavedParameters {
 public:
  void record(const Arguments& arguments) {
    std::copy_n(arguments.parameters, arguments.num_parameters, numbers_.begin());
    for (int i = 0; i < arguments.num_parameters; ++i) {
      if (arguments.symbolic[i] != nullptr)
        symbolic_[static_cast<size_t>(i)] = *arguments.symbolic[i];
    }
  }

  at::Scalar scalar(size_t i) const {
    return symbolic_[i].isSymbolic() ? symbolic_[i] : as_scalar(numbers_[i]);
  }
  // Of a symbol, the value that it stands for: a graph that is being traced is for that alone.
  Number number(size_t i) const {
    if (!symbolic_[i].isSymbolic()) return numbers_[i];
    return numbers_[i].is_integral() ? Number::of(symbolic_[i].toLong())
                                     : Number::of(symbolic_[i].toDouble());
  }

 private:
  std::array<Number, kMaxParameters> numbers_;
  std::array<at::Scalar, kMaxParameters> symbolic_;  // plain where a parameter is
};

// What a formula may use. Only what the derivative declares is there; the rest is undefined.
struct Saved {
  std::array<at::Tensor, kMaxOperands> inputs;
  at::Tensor result;
  SavedParameters parameters;

  at::Scalar scalar(size_t i) const { return parameters.scalar(i); }
  Number number(size_t i) const { return parameters.number(i); }
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

// Formulas that several tables share.
at::Tensor unchanged(const at::Tensor& grad, const Saved& saved);
at::Tensor zero(const at::Tensor& grad, const Saved& saved);

// Tables of their own, which find_derivative joins: constexpr, for they are read while other
// files' static objects register operators.
std::span<const Derivative> unary_derivatives();
std::span<const Derivative> activation_derivatives();
std::span<const Derivative> binary_derivatives();

// Null where the operator has no derivative.
const Derivative* find_derivative(std::string_view op);

}  // namespace iterlab
