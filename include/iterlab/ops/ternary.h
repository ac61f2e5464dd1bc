// Operators with three tensor inputs. To add one: a struct, and its name in the list at the end.
#pragma once

#include "iterlab/math.h"
#include "iterlab/op.h"

namespace iterlab::ops {

struct Where : Ternary {
  static constexpr auto name = "where";
  static constexpr auto doc = "input where condition is true, other elsewhere.";
  static constexpr std::array inputs{"condition", "input", "other"};
  static constexpr uint32_t promoted_inputs = 0b110;
  static constexpr uint32_t bool_inputs = 0b001;
  static constexpr auto dtypes = kAllDTypes;
  static constexpr uint8_t variants = kFunctional | kOut;
  static constexpr bool moves_bits = true;
  template <class V>
  ITERLAB_FN V operator()(V condition, V input, V other) const {
    return math::select(math::is_true(condition), input, other);
  }
};

using TernaryOps = OpList<Where>;

}  // namespace iterlab::ops
