// Activations and their backward operators. To add one: a struct, and its name in the list at the
// end.
#pragma once

#include "iterlab/math.h"
#include "iterlab/op.h"

namespace iterlab::ops {

struct LeakyRelu : Unary {
  static constexpr auto name = "leaky_relu";
  static constexpr auto torch_name = "nn.functional.leaky_relu";
  static constexpr auto doc = "input where positive, negative_slope * input elsewhere.";
  static constexpr auto dtypes = kFloating;
  static constexpr std::array parameters{
      Parameter{.name = "negative_slope", .kind = ParameterKind::Scalar, .default_value = "0.01"}};
  template <class V>
  ITERLAB_FN V operator()(V input, V negative_slope) const {
    return math::select(math::gt(input, constant<V>(0)), input, input * negative_slope);
  }
};

using ActivationOps = OpList<LeakyRelu>;

}  // namespace iterlab::ops
