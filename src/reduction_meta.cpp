// Meta of reductions: the shape half of the plan without the run, on symbolic sizes.
#include "src/reduction_call.h"
#include "src/symbolic.h"

#include <ATen/native/Resize.h>
#include <ATen/ops/as_strided.h>
#include <ATen/ops/empty_strided.h>

namespace iterlab {
namespace {

BasicOperand<c10::SymInt> as_symbolic_operand(const at::Tensor& tensor) {
  BasicOperand<c10::SymInt> operand;
  const auto sizes = tensor.sym_sizes(), strides = tensor.sym_strides();
  operand.sizes = {sizes.data(), sizes.size()};
  operand.strides = {strides.data(), strides.size()};
  operand.dtype = tensor.scalar_type();
  return operand;
}

}  // namespace

ReduceResults reduce_meta(const OpInfo& op, const at::Tensor& input,
                          const ReduceArguments& arguments, const GivenResults& given) {
  return with_torch_errors([&] {
    Arguments tensors;
    tensors.add_operand(input);
    for (const at::Tensor* const output : given) check_devices(op, tensors, output, at::kMeta);
    BasicOperands<c10::SymInt> operands;
    operands.num_outputs = op.num_outputs;
    operands.num_inputs = 1;
    operands.dtype_argument = arguments.dtype.value_or(DType::Undefined);
    operands.default_dtype = c10::get_default_dtype_as_scalartype();
    for (int i = 0; i < op.num_outputs; ++i) {
      const at::Tensor* const output = given[static_cast<size_t>(i)];
      if (output == nullptr) continue;
      operands.output(i) = as_symbolic_operand(*output);
      operands.output(i).output_kind = OutputKind::Given;
    }
    operands.input(0) = as_symbolic_operand(input);
    BasicReduceShapePlan<c10::SymInt> plan;
    make_reduce_shape_plan(operands, reduce_request(op, input.dim(), arguments), op, plan);
    ReduceResults results;
    for (size_t i = 0; i < static_cast<size_t>(op.num_outputs); ++i) {
      if (given[i] == nullptr) {
        results[i] =
            at::empty_strided_symint(plan.output_shape, plan.output_strides,
                                     at::TensorOptions(plan.result_dtypes[i]).device(at::kMeta));
        continue;
      }
      if ((plan.resized_outputs >> i & 1u) != 0 &&
          at::native::resize_output_symint(*given[i], plan.output_shape)) {
        given[i]->as_strided__symint(plan.output_shape, plan.output_strides);
      }
      results[i] = *given[i];
    }
    return results;
  });
}

}  // namespace iterlab
