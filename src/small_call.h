// Small calls, without a plan.
#pragma once

#include "src/call.h"

namespace iterlab {

// Note [Small calls]
// What a call of a few elements takes is its plan, not its loop. Where all operands have one dtype
// there is little to decide: contiguous ones of one shape are one call of the kernel, and others of
// up to kMostGathered elements are gathered into contiguous ones first. Which kernel that is, and
// the result's dtype, a plan has said once for each operator and dtype. A call that is recorded,
// forced on a path, or of another kind is planned.

// Computes such a call, into `allocated` where no output is given. False where the call is not one,
// and nothing has been touched.
bool call_small(const OpInfo& op, const Arguments& arguments, Output output, at::Tensor& allocated);

// Whether call_small would compute such a call.
bool is_small_call(const OpInfo& op, const Operands& operands);

}  // namespace iterlab
