// Binary operators. To add one: a struct, and its name in the list at the end.
#pragma once

#include "iterlab/math.h"
#include "iterlab/op.h"

namespace iterlab::ops {

struct Add : Binary {
  static constexpr auto name = "add";
  static constexpr auto doc = "input + alpha * other. Of bool: logical or.";
  static constexpr std::array parameters{Parameter{
      .name = "alpha", .kind = ParameterKind::Alpha, .default_value = "1", .keyword_only = true}};
  template <class V>
  ITERLAB_FN V operator()(V input, V other, V alpha) const {
    return math::fma(other, alpha, input);
  }
};

struct Mul : Binary {
  static constexpr auto name = "mul";
  static constexpr auto doc = "input * other. Of bool: logical and.";
  template <class V>
  ITERLAB_FN V operator()(V input, V other) const {
    return input * other;
  }
};

using BinaryOps = OpList<Add, Mul>;

}  // namespace iterlab::ops
