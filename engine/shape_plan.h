// The shape half of planning: shapes, dtypes and strides of a call, for real and symbolic sizes
// alike.
#pragma once

#include "engine/order.h"
#include "engine/result_type.h"

namespace iterlab {

// Given outputs of another shape are resized (out=) or refused (in-place).
template <class Int>
void inspect_outputs(const BasicOperands<Int>& operands, const OpInfo& op,
                     BasicShapePlan<Int>& plan) {
  plan.resized_outputs = 0;
  for (int i = 0; i < operands.num_outputs; ++i) {
    const auto& output = operands.output(i);
    if (output.output_kind == OutputKind::Allocated || same_sizes(output.sizes, plan.shape))
      continue;
    const bool in_place = output.output_kind == OutputKind::Inplace;
    if (in_place || operands.output_is_input) {
      throw PlanError(PlanError::Kind::Runtime, op,
                      std::string("expected an ") + (in_place ? "in-place" : "output that is an") +
                          " operand of the broadcast shape " +
                          shape_text(std::span<const Int>(plan.shape.data(),
                                                          static_cast<size_t>(plan.shape.size()))) +
                          ", got shape " + shape_text(output.sizes));
    }
    plan.resized_outputs |= 1u << i;
  }
}

template <class Int>
void make_shape_plan(const BasicOperands<Int>& operands, const OpInfo& op,
                     BasicShapePlan<Int>& plan) {
  plan.op = &op;
  plan.num_outputs = operands.num_outputs;
  plan.num_operands = operands.size();
  broadcast_inputs(operands, op, plan.shape);
  plan_dtypes(operands, op, plan);
  inspect_outputs(operands, op, plan);
  plan_layout(operands, op, plan);
}

}  // namespace iterlab
