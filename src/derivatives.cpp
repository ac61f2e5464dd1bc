// Derivatives of the built-in operators. Formulas call differentiable operators, so they can be
// differentiated again.
#include "src/derivatives.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/where.h>

#include <algorithm>

namespace iterlab {
namespace {

using at::Tensor;

// A reduced gradient with its reduced dims back, broadcast to the input's shape.
Tensor expand_reduced(Tensor grad, const SavedReduction& saved) {
  if (!saved.keepdim) {
    for (int64_t dim : saved.dims) grad = grad.unsqueeze(dim);
  }
  return grad.expand_symint(saved.input_sizes);
}

const ReductionDerivative reduction_derivatives[] = {
    {.op = "sum",
     .grad = [](const Tensor& grad,
                const SavedReduction& saved) { return expand_reduced(grad, saved); }},
};

template <class Table>
auto find(const Table& table, std::string_view op) -> decltype(&table[0]) {
  const auto found = std::find_if(std::begin(table), std::end(table),
                                  [&](const auto& entry) { return entry.op == op; });
  return found == std::end(table) ? nullptr : &*found;
}

}  // namespace

const Derivative* find_derivative(std::string_view op) {
  for (const std::span<const Derivative> table :
       {unary_derivatives(), activation_derivatives(), binary_derivatives()}) {
    if (const Derivative* const found = find(table, op)) return found;
  }
  return nullptr;
}
const ReductionDerivative* find_reduction_derivative(std::string_view op) {
  return find(reduction_derivatives, op);
}

}  // namespace iterlab
