// Meta: the shape half of the plan without the run, on symbolic sizes.
#include "engine/shape_plan.h"
#include "src/describe.h"
#include "src/symbolic.h"

#include <ATen/native/Resize.h>
#include <ATen/ops/as_strided.h>
#include <ATen/ops/empty_strided.h>

namespace iterlab {
namespace {

at::Tensor make_meta_result(const std::vector<c10::SymInt>& shape,
                            const std::vector<c10::SymInt>& strides, DType dtype, bool resized,
                            Output output) {
  if (output.kind == OutputKind::Allocated) {
    return at::empty_strided_symint(shape, strides, at::TensorOptions(dtype).device(at::kMeta));
  }
  if (resized && at::native::resize_output_symint(*output.tensor, shape)) {
    output.tensor->as_strided__symint(shape, strides);
  }
  return *output.tensor;
}

}  // namespace

at::Tensor call_meta(const OpInfo& op, const Arguments& arguments, Output output) {
  return with_torch_errors([&] {
    check_devices(op, arguments, output.tensor, at::kMeta);
    BasicOperands<c10::SymInt> operands;
    describe_call(op, arguments, output, operands);
    BasicShapePlan<c10::SymInt> plan;
    make_shape_plan(operands, op, plan);
    check_parameters(op, arguments, plan.common_dtype);
    check_numbers(op, arguments, plan.common_dtype);
    return make_meta_result(plan.shape, plan.output_strides, plan.result_dtype,
                            plan.resized_outputs != 0, output);
  });
}

}  // namespace iterlab
