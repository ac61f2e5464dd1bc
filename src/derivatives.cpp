// Derivatives of the built-in operators. Formulas call differentiable operators, so they can be
// differentiated again.
#include "src/derivatives.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/where.h>

#include <algorithm>

namespace iterlab {
namespace {

using at::Tensor;

const Derivative derivatives[] = {
    {.op = "add",
     .inputs = {[](const Tensor& grad, const Saved&) { return grad; },
                [](const Tensor& grad, const Saved& saved) {
                  const at::Scalar alpha = saved.scalar(0);
                  return alpha.equal(1) ? grad : grad * alpha.conj();
                }}},
    {.op = "mul",
     .inputs = {
         [](const Tensor& grad, const Saved& saved) { return grad * saved.inputs[1].conj(); },
         [](const Tensor& grad, const Saved& saved) { return grad * saved.inputs[0].conj(); }},
     .saves_inputs = 0b11},
    {.op = "exp",
     .inputs = {[](const Tensor& grad, const Saved& saved) { return grad * saved.result.conj(); }},
     .saves_result = true},
    {.op = "where",
     .inputs = {
         nullptr,
         [](const Tensor& grad, const Saved& saved) { return at::where(saved.inputs[0], grad, 0); },
         [](const Tensor& grad, const Saved& saved) {
           return at::where(saved.inputs[0], 0, grad);
         }},
     .saves_inputs = 0b001},
    {.op = "to", .inputs = {[](const Tensor& grad, const Saved&) { return grad; }}},
};

template <class Table>
auto find(const Table& table, std::string_view op) -> decltype(&table[0]) {
  const auto found = std::find_if(std::begin(table), std::end(table),
                                  [&](const auto& entry) { return entry.op == op; });
  return found == std::end(table) ? nullptr : &*found;
}

}  // namespace

const Derivative* find_derivative(std::string_view op) { return find(derivatives, op); }

}  // namespace iterlab
