// Reductions. To add one: a struct, and its name in the list at the end.
#pragma once

#include "iterlab/math.h"
#include "iterlab/reduce.h"

namespace iterlab::ops {

struct Sum : Reduction {
  static constexpr auto name = "sum";
  static constexpr auto doc =
      "Sum of the elements along dim. Integers and bool are summed in int64.";
  static constexpr AutocastPolicy autocast{.cuda = Autocast::Float32Result};
  template <class V>
  ITERLAB_FN V identity() const {
    return V(typename V::value_type(0));
  }
  template <class V>
  ITERLAB_FN V combine(V a, V b) const {
    return a + b;
  }
};

using ReduceOps = OpList<Sum>;

}  // namespace iterlab::ops
