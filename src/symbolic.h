// Answers to the shape half's questions for symbolic integers. Note [Symbolic sizes]
#pragma once

#include "engine/symbolic.h"

#include <c10/core/SymInt.h>

namespace iterlab {

template <>
struct SizeQuery<c10::SymInt> {
  static bool equal(const c10::SymInt& a, const c10::SymInt& b) {
    return TORCH_GUARD_OR_FALSE(a.sym_eq(b));
  }
  static bool less(const c10::SymInt& a, const c10::SymInt& b) {
    return TORCH_GUARD_OR_FALSE(a.sym_lt(b));
  }
  static bool require_equal(const c10::SymInt& a, const c10::SymInt& b) {
    const c10::SymBool same = a.sym_eq(b);
    if (TORCH_GUARD_OR_FALSE(same)) return true;
    if (!TORCH_GUARD_OR_TRUE(same)) return false;
    return same.expect_true(__FILE__, __LINE__);  // unknown: checked when the value is
  }
  static c10::SymInt at_least_one(const c10::SymInt& a) {
    return TORCH_STATICALLY_KNOWN_TRUE(a.sym_ge(1)) ? a : a.max(c10::SymInt(1));
  }
};

}  // namespace iterlab
