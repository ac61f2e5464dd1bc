// Derivatives of the built-in operators, from the tables of their kinds.
#include "src/derivatives.h"

#include <algorithm>

namespace iterlab {

const Derivative* find_derivative(std::string_view op) {
  for (const std::span<const Derivative> table :
       {unary_derivatives(), activation_derivatives(), binary_derivatives()}) {
    const auto found = std::find_if(table.begin(), table.end(),
                                    [&](const Derivative& entry) { return entry.op == op; });
    if (found != table.end()) return &*found;
  }
  return nullptr;
}

}  // namespace iterlab
