// Meta: the shape half of the plan without the run, on symbolic sizes.
#include "engine/shape_plan.h"
#include "src/call.h"
#include "src/symbolic.h"

#include <ATen/native/Resize.h>
#include <ATen/ops/as_strided.h>
#include <ATen/ops/empty_strided.h>

namespace iterlab {
namespace {

using SymOperand = BasicOperand<c10::SymInt>;
using SymOperands = BasicOperands<c10::SymInt>;

SymOperand as_symbolic_operand(const at::Tensor& tensor) {
  SymOperand operand;
  const auto sizes = tensor.sym_sizes(), strides = tensor.sym_strides();
  operand.sizes = {sizes.data(), sizes.size()};
  operand.strides = {strides.data(), strides.size()};
  operand.dtype = tensor.scalar_type();
  operand.is_wrapped_number = tensor.unsafeGetTensorImpl()->is_wrapped_number();
  return operand;
}

void make_symbolic_operands(const OpInfo& op, const Arguments& arguments, Output output,
                            SymOperands& operands) {
  check_devices(op, arguments, output.tensor, at::kMeta);
  operands.num_outputs = 1;
  operands.num_inputs = arguments.num_tensors;
  plan_parameters(op, arguments, operands);
  if (output.kind != OutputKind::Allocated)
    operands.output(0) = as_symbolic_operand(*output.tensor);
  operands.output(0).output_kind = output.kind;
  for (int i = 0; i < arguments.num_tensors; ++i)
    operands.input(i) = as_symbolic_operand(*arguments.tensors[i]);
}

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
    SymOperands operands;
    make_symbolic_operands(op, arguments, output, operands);
    BasicShapePlan<c10::SymInt> plan;
    make_shape_plan(operands, op, plan);
    check_parameters(op, arguments, plan.common_dtype);
    check_numbers(op, arguments, plan.common_dtype);
    return make_meta_result(plan.shape, plan.output_strides, plan.result_dtype,
                            plan.resized_outputs != 0, output);
  });
}

}  // namespace iterlab
