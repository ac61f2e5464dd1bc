// Broadcasting: the shape that several operands share.
#pragma once

#include "engine/symbolic.h"
#include "iterlab/error.h"
#include "iterlab/operand.h"
#include "iterlab/plan.h"

#include <string>

namespace iterlab {

template <class Int>
std::string shape_text(std::span<const Int> sizes) {
  if constexpr (std::is_same_v<Int, int64_t>) {
    return to_string(Dims(sizes));
  } else {
    return "with symbolic sizes";
  }
}

// The broadcast shape of the inputs: dims are aligned at the last one, and a dim of size 1
// stretches to the other's.
template <class Int>
void broadcast_inputs(const BasicOperands<Int>& operands, const OpInfo& op, DimsOf<Int>& shape) {
  using Query = SizeQuery<Int>;
  int ndim = 0;
  for (int i = 0; i < operands.num_inputs; ++i) {
    ndim = std::max(ndim, static_cast<int>(operands.input(i).sizes.size()));
  }
  if (ndim > kMaxDims) {
    throw PlanError(PlanError::Kind::Runtime, op,
                    "expected at most 128 dims, got an operand with " + std::to_string(ndim));
  }
  shape.resize(static_cast<decltype(shape.size())>(ndim));
  for (auto& size : shape) size = Int(1);
  for (int i = 0; i < operands.num_inputs; ++i) {
    const auto& sizes = operands.input(i).sizes;
    const int offset = ndim - static_cast<int>(sizes.size());
    for (size_t d = 0; d < sizes.size(); ++d) {
      auto& size = shape[static_cast<int>(d) + offset];
      if (Query::equal(sizes[d], Int(1))) continue;
      if (Query::equal(size, Int(1))) {
        size = sizes[d];
      } else if (!Query::require_equal(size, sizes[d])) {
        std::string shapes;
        for (int k = 0; k < operands.num_inputs; ++k) {
          shapes += (k == 0                         ? ""
                     : k + 1 == operands.num_inputs ? " and "
                                                    : ", ") +
                    shape_text(operands.input(k).sizes);
        }
        throw PlanError(PlanError::Kind::Runtime, op,
                        "expected operands that broadcast, got shapes " + shapes);
      }
    }
  }
}

template <class Int, class Shape>
bool same_sizes(std::span<const Int> sizes, const Shape& shape) {
  if (sizes.size() != static_cast<size_t>(shape.size())) return false;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (!SizeQuery<Int>::equal(sizes[d], shape[static_cast<int>(d)])) return false;
  }
  return true;
}

}  // namespace iterlab
