// Derivatives of the built-in reductions: one formula for each result.
#pragma once

#include "iterlab/reduce_facts.h"

#include <ATen/core/Tensor.h>

#include <array>
#include <string_view>
#include <vector>

namespace iterlab {

// What the formulas of reductions may use. Tensors that the derivative does not declare are
// undefined.
struct SavedReduction {
  at::Tensor input;
  std::array<at::Tensor, kMaxResults> results;
  std::vector<c10::SymInt> input_sizes;
  std::vector<int64_t> dims;  // wrapped and sorted
  bool keepdim = false;
  double number = 1;
};

// The gradient of the input, given that of one result; linear in `grad`. The dtype and the real
// part for real inputs are the caller's business.
using ReductionFormula = at::Tensor (*)(const at::Tensor& grad, const SavedReduction& saved);

// Note [Tangents of reductions]
// Each result depends on its own elements, so that the gradient of a result of ones holds the
// conjugate Jacobian, element by element: the tangent of the result is the sum over the reduced
// dims of that, conjugated, times the tangent of the input. A linear reduction is its own tangent.
struct ReductionDerivative {
  std::string_view op;
  std::string_view overload = "";
  std::array<ReductionFormula, kMaxResults> results{};  // null: not differentiable
  bool linear = false;
  bool saves_input = false;
  uint32_t saves_results = 0;  // bit i: formulas read result i
};

// Null where the reduction has no derivative.
const ReductionDerivative* find_reduction_derivative(std::string_view op,
                                                     std::string_view overload);

// A result, with its reduced dims back as dims of size 1.
at::Tensor keep_dims(at::Tensor result, const SavedReduction& saved);

}  // namespace iterlab
