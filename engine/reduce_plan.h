// Making the plan of a reduction.
#pragma once

#include "engine/order.h"
#include "engine/result_type.h"
#include "iterlab/reduce_plan.h"

#include <optional>

namespace iterlab {

// A row of accumulators is at most this long; kLanes of them take half of a 32 KiB first-level
// cache.
inline constexpr int64_t kStripBytes = 1024;

// The dims of a call as a set. No dims (none given, or an empty list) means all. Raises IndexError
// for a dim out of range and RuntimeError for one that is named twice, as torch does.
DimSet reduced_dims(std::optional<std::span<const int64_t>> dims, int ndim, const OpInfo& op);

// The shape half: `operands` has one input and one output.
template <class Int>
void make_reduce_shape_plan(const BasicOperands<Int>& operands, const DimSet& dims, bool keepdim,
                            const OpInfo& op, BasicReduceShapePlan<Int>& plan) {
  const auto& input = operands.input(0);
  plan.op = &op;
  plan.shape.resize(static_cast<decltype(plan.shape.size())>(input.sizes.size()));
  std::copy(input.sizes.begin(), input.sizes.end(), plan.shape.begin());
  plan.reduced_dims = dims;
  for (size_t d = 0; d < input.sizes.size(); ++d) {
    const bool is_reduced = dims[d];
    if (is_reduced && !keepdim) continue;
    plan.output_shape.push_back(is_reduced ? Int(1) : input.sizes[d]);
  }
  contiguous_strides<Int>(plan.output_shape, plan.output_strides);
  plan.input_dtype = input.dtype;
  plan.element_dtype =
      operands.dtype_argument == DType::Undefined ? input.dtype : operands.dtype_argument;
  if (!op.dtypes.contains(plan.element_dtype)) {
    throw PlanError(PlanError::Kind::NotImplemented, op,
                    "expected a dtype that it computes in, got " + dtype_text(plan.element_dtype));
  }
  plan.accumulate_dtype = accumulate_dtype(op.accumulate, plan.element_dtype);
  const bool widens = op.accumulate == Accumulate::Sum && is_integral(plan.element_dtype, true);
  plan.result_dtype = operands.dtype_argument != DType::Undefined ? operands.dtype_argument
                      : widens                                    ? DType::Long
                                                                  : input.dtype;
  const auto& output = operands.output(0);
  if (output.output_kind == OutputKind::Given) {
    if (!can_cast(plan.result_dtype, output.dtype)) {
      throw PlanError(PlanError::Kind::Runtime, op,
                      "expected an output that can hold a result of dtype " +
                          dtype_text(plan.result_dtype) + ", got one of dtype " +
                          dtype_text(output.dtype));
    }
    plan.resized_output = !same_sizes(output.sizes, plan.output_shape);
  }
}

void make_reduce_plan(const Operands& operands, const DimSet& dims, bool keepdim, const OpInfo& op,
                      ReducePlan& plan);

}  // namespace iterlab
