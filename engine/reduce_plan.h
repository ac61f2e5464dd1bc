// Making the plan of a reduction.
#pragma once

#include "engine/order.h"
#include "engine/result_type.h"
#include "iterlab/reduce_plan.h"

#include <optional>

namespace iterlab {

// The dims of a call as a set. No dims (none given, or an empty list) means all. Raises IndexError
// for a dim out of range and RuntimeError for one that is named twice, as torch does.
DimSet reduced_dims(std::optional<std::span<const int64_t>> dims, int ndim, const OpInfo& op);

// What a reduction is asked beside its input.
struct ReduceRequest {
  DimSet dims;
  bool dims_given = false;
  bool keepdim = false;
  double number = 0;
};

// The dtype that elements are to be converted to first; Undefined where none is asked for.
template <class Int>
DType dtype_argument(const BasicOperands<Int>& operands, const OpInfo& op) {
  const bool of_out = operands.dtype_argument == DType::Undefined &&
                      op.reduction.takes_dtype_of_out() &&
                      operands.output(0).output_kind == OutputKind::Given;
  return of_out ? operands.output(0).dtype : operands.dtype_argument;
}

// Checks of dtypes and the dtypes of results. Raises as torch does.
void plan_reduce_dtypes(const OpInfo& op, DType input, DType argument, DType default_dtype,
                        DType& element, std::array<DType, kMaxResults>& results);
// Whether a given output may have `dtype`.
void check_reduce_output(const OpInfo& op, DType result, DType dtype);
// Raises where a reduction without identity has no elements.
[[noreturn]] void refuse_nothing(const OpInfo& op, bool dims_given, int dim);
// Whether the reduction has no value for no elements.
bool needs_elements(const OpInfo& op, double number);

// The shape half: `operands` has one input, and the operator's outputs.
template <class Int>
void make_reduce_shape_plan(const BasicOperands<Int>& operands, const ReduceRequest& request,
                            const OpInfo& op, BasicReduceShapePlan<Int>& plan) {
  using Query = SizeQuery<Int>;
  const auto& input = operands.input(0);
  plan.op = &op;
  plan.shape.resize(static_cast<decltype(plan.shape.size())>(input.sizes.size()));
  std::copy(input.sizes.begin(), input.sizes.end(), plan.shape.begin());
  plan.reduced_dims = request.dims;
  const bool needs = needs_elements(op, request.number);
  for (size_t d = 0; d < input.sizes.size(); ++d) {
    const bool is_reduced = request.dims[d];
    if (is_reduced && needs && Query::equal(input.sizes[d], Int(0)))
      refuse_nothing(op, request.dims_given, static_cast<int>(d));
    if (is_reduced && !request.keepdim) continue;
    plan.output_shape.push_back(is_reduced ? Int(1) : input.sizes[d]);
  }
  contiguous_strides<Int>(plan.output_shape, plan.output_strides);
  plan.input_dtype = input.dtype;
  plan_reduce_dtypes(op, input.dtype, dtype_argument(operands, op), operands.default_dtype,
                     plan.element_dtype, plan.result_dtypes);
  const bool half = input.dtype == DType::Half || input.dtype == DType::BFloat16;
  if (op.reduction.variant != nullptr) plan.variant = op.reduction.variant(request.number);
  const bool as_stored =
      half && op.reduction.reads_halves && plan.variant == 0 && plan.element_dtype == input.dtype;
  plan.loaded_dtype = as_stored ? input.dtype : compute_dtype(plan.element_dtype);
  plan.accumulate_dtype = accumulate_dtype(op.reduction.accumulate, plan.element_dtype);
  for (int i = 0; i < operands.num_outputs; ++i) {
    const auto& output = operands.output(i);
    if (output.output_kind != OutputKind::Given) continue;
    check_reduce_output(op, plan.result_dtypes[static_cast<size_t>(i)], output.dtype);
    if (!same_sizes(output.sizes, plan.output_shape)) plan.resized_outputs |= 1u << i;
  }
}

// Throws where an output overlaps itself, another, or the input, of which only single elements that
// are reduced may be written over. Operands without data are not checked.
void check_reduce_overlap(const Operands& operands, const OpInfo& op, int64_t reduced);

// States the form, and what follows from it, where the dims are known.
void choose_form(ReducePlan& plan);

void make_reduce_plan(const Operands& operands, const ReduceRequest& request, const OpInfo& op,
                      ReducePlan& plan);

}  // namespace iterlab
