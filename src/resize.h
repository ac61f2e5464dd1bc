// Given outputs (out=) of another shape than the result's.
#pragma once

#include "iterlab/reduce_plan.h"
#include "src/call.h"
#include "src/reduction_call.h"

namespace iterlab {

// Give the outputs that the plan says their shape, with torch's warning. Throw where one that has
// grown shares memory with another operand, as planning does of those that keep their shape.
void resize_outputs(const Plan& plan, const Arguments& arguments, Output output);
void resize_outputs(const ReducePlan& plan, const at::Tensor& input,
                    const ReduceArguments& arguments, const GivenResults& given);

}  // namespace iterlab
