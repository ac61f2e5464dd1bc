// Comparisons. To add one: a struct, and its name in the list at the end.
#pragma once

#include "iterlab/math.h"
#include "iterlab/op.h"

namespace iterlab::ops {

struct Comparison : Binary {
  static constexpr auto promotion = Promotion::AlwaysBool;
};

struct Eq : Comparison {
  static constexpr auto name = "eq";
  static constexpr auto doc = "Whether input == other, elementwise.";
  template <class V>
  ITERLAB_FN V operator()(V input, V other) const {
    return math::as_value<V>(math::eq(input, other));
  }
};

using ComparisonOps = OpList<Eq>;

}  // namespace iterlab::ops
