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

struct Clone : Unary {
  static constexpr auto name = "clone";
  static constexpr auto doc =
      "A copy of input; strides are preserved where dense, or those of memory_format.";
  static constexpr std::array parameters{Parameter{.name = "memory_format",
                                                   .kind = ParameterKind::MemoryFormat,
                                                   .default_value = "None",
                                                   .keyword_only = true}};
  static constexpr auto dtypes = kAllDTypes;
  static constexpr uint8_t variants = kFunctional | kOut;
  static constexpr bool moves_bits = true;
  static constexpr bool preserves_strides = true;
  template <class V>
  ITERLAB_FN V operator()(V input) const {
    return input;
  }
};

// Operators that overwrite their first input.
struct Overwriting : Elementwise<2> {
  static constexpr uint32_t promoted_inputs = 0b01;
  static constexpr uint32_t unread_inputs = 0b01;
  static constexpr auto dtypes = kAllDTypes;
  static constexpr bool moves_bits = true;
  static constexpr bool preserves_strides = true;
};

struct Copy : Overwriting {
  static constexpr auto name = "copy";
  static constexpr auto torch_name = "ops.aten.copy";
  static constexpr bool preserves_gaps = true;
  static constexpr auto doc = "src, broadcast and converted to the shape and dtype of input.";
  static constexpr std::array inputs{"input", "src"};
  static constexpr std::array parameters{
      Parameter{.name = "non_blocking", .kind = ParameterKind::Bool, .default_value = "False"}};
  template <class V>
  ITERLAB_FN V operator()(V /*input*/, V src, int64_t /*non_blocking*/) const {
    return src;
  }
};

struct Fill : Overwriting {
  static constexpr auto name = "fill";
  static constexpr auto doc = "A tensor like input, every element of which is value.";
  static constexpr std::array inputs{"input", "value"};
  static constexpr uint32_t number_inputs = 0b10;
  static constexpr bool numbers_must_fit = true;
  template <class V>
  ITERLAB_FN V operator()(V /*input*/, V value) const {
    return value;
  }
};

using DataOps = OpList<To, Clone, Copy, Fill>;

}  // namespace iterlab::ops
