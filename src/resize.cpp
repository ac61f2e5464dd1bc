// Given outputs of another shape than the result's: resized, and checked again.
#include "src/resize.h"

#include "engine/overlap.h"
#include "engine/reduce_plan.h"
#include "src/describe.h"

#include <ATen/native/Resize.h>

namespace iterlab {
namespace {

void resize_output(const at::Tensor& output, const Dims& sizes, const Dims& strides) {
  if (at::native::resize_output(output, as_sizes(sizes)))
    output.as_strided_(as_sizes(sizes), as_sizes(strides));
}

}  // namespace

void resize_outputs(const Plan& plan, const Arguments& arguments, Output output) {
  if (plan.resized_outputs == 0) return;
  resize_output(*output.tensor, plan.shape, plan.output_strides);
  Operands operands;
  describe_call(*plan.op, arguments, output, operands);
  check_overlap(operands, *plan.op);
}

void resize_outputs(const ReducePlan& plan, const at::Tensor& input,
                    const ReduceArguments& arguments, const GivenResults& given) {
  if (plan.resized_outputs == 0) return;
  for (size_t i = 0; i < kMaxResults; ++i) {
    if ((plan.resized_outputs >> i & 1u) != 0)
      resize_output(*given[i], plan.output_shape, plan.output_strides);
  }
  Operands operands;
  describe_reduction(*plan.op, input, arguments, given, operands);
  check_reduce_overlap(operands, *plan.op, plan.reduced);
}

}  // namespace iterlab
