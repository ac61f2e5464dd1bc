// Operators that only move or convert values. To add one: a struct, and its name in the list at the
// end.
#pragma once

#include "iterlab/math.h"
#include "iterlab/op.h"

namespace iterlab::ops {

struct To : Unary {
  static constexpr auto name = "to";
  static constexpr auto doc =
      "input converted to dtype, always as a new tensor; strides are preserved where dense.";
  static constexpr std::array parameters{Parameter{.name = "dtype", .kind = ParameterKind::DType}};
  static constexpr auto promotion = Promotion::ToArgument;
  static constexpr auto dtypes = kAllDTypes;
  static constexpr uint8_t variants = kFunctional | kOut;
  static constexpr bool moves_bits = true;
  static constexpr bool preserves_strides = true;
  template <class V>
  ITERLAB_FN V operator()(V input) const {
    return input;
  }
};

using DataOps = OpList<To>;

}  // namespace iterlab::ops
