// Unary operators. To add one: a struct, and its name in the list at the end.
#pragma once

#include "iterlab/math.h"
#include "iterlab/op.h"

namespace iterlab::ops {

struct Exp : Unary {
  static constexpr auto name = "exp";
  static constexpr auto doc = "e to the power of input, elementwise.";
  static constexpr auto promotion = Promotion::IntToFloat;
  static constexpr auto dtypes = kFloatingAndComplex;
  static constexpr AutocastPolicy autocast{.cuda = Autocast::Float32};
  static constexpr double cost = 4;
  template <class V>
  ITERLAB_FN V operator()(V input) const {
    return math::exp(input);
  }
};

using UnaryOps = OpList<Exp>;

}  // namespace iterlab::ops
