// Derivatives of the built-in operators. Formulas call differentiable operators, so they can be
// differentiated again.
#include "src/derivatives.h"

#include <algorithm>

namespace iterlab {
namespace {

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

}  // namespace iterlab
