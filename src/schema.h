// Schemas, as text, from what the definition says.
#pragma once

#include "iterlab/op.h"

#include <ATen/core/operator_name.h>

#include <string>

namespace iterlab {

enum class Variant : uint8_t { Functional, Out, Inplace };

// Note [Number operands]
// torch.ops turns Python numbers into tensors for ATen's own operators only. So that a number is
// accepted wherever a tensor is, operators that promote several inputs have an overload for each
// choice of them that are numbers: `scalar_inputs` has bit i set where input i is one. The overload
// is named for those inputs ("Scalar_other"). The name of an overload as the dispatcher knows it.
c10::OperatorName overload_name(const OpInfo& op, Variant variant, uint32_t scalar_inputs);

// "add(Tensor input, Tensor other, *, Scalar alpha=1) -> Tensor", and so on.
std::string schema_text(const OpInfo& op, Variant variant, uint32_t scalar_inputs);

}  // namespace iterlab
