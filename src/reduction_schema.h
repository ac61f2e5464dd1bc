// The schemas of reductions, as text, from what their definitions say.
#pragma once

#include "iterlab/op.h"

#include <ATen/core/operator_name.h>

#include <string>

namespace iterlab {

// "iterlab::max.dim", and "iterlab::max.dim_out" of the out variant.
c10::OperatorName reduction_overload(const OpInfo& op, bool out);

// "iterlab::sum(Tensor input, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None)
// -> Tensor", and so on.
std::string reduction_schema_text(const OpInfo& op, bool out);

}  // namespace iterlab
