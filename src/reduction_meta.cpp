// Meta of reductions: the shape half of the plan without the run, on symbolic sizes.
#include "src/describe.h"
#include "src/symbolic.h"

#include <ATen/native/Resize.h>
#include <ATen/ops/as_strided.h>
#include <ATen/ops/empty_strided.h>

namespace iterlab {
ReduceResults reduce_meta(const OpInfo& op, const at::Tensor& input,
                          const ReduceArguments& arguments, const GivenResults& given) {
  return with_torch_errors([&] {
    Arguments tensors;
    tensors.add_operand(input);
    for (const at::Tensor* const output : given) check_devices(op, tensors, output, at::kMeta);
    BasicOperands<c10::SymInt> operands;
    describe_reduction(op, input, arguments, given, operands);
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
