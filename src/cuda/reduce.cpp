// The call template of reductions on CUDA: operands → plan → results → launch.
#include "src/cuda/reduce.h"

#include "engine/op_table.h"
#include "src/cuda/device.h"
#include "src/cuda/workspace.h"
#include "src/describe.h"
#include "src/profiler_range.h"
#include "src/resize.h"
#include "src/warnings.h"

#include <c10/cuda/CUDAGuard.h>

namespace iterlab::cuda {
namespace {

void check_device(const OpInfo& op, const at::Tensor& tensor, at::Device device) {
  if (tensor.device() == device && device.is_cuda()) return;
  throw PlanError(PlanError::Kind::Runtime, op,
                  "expected all operands on " + (device.is_cuda() ? device.str() : "CUDA") +
                      ", got one on " + tensor.device().str());
}

void plan_reduction(const OpInfo& op, const at::Tensor& input,
                    const iterlab::ReduceArguments& arguments, const GivenResults& given,
                    ReducePlan& plan) {
  const ProfilerRange range(is_recorded(), &plan_range);
  Operands operands;
  describe_reduction(op, input, arguments, given, operands);
  make_reduce_plan(operands, reduce_request(op, input.dim(), arguments), op, plan);
}

ReduceResults make_results(const OpInfo& op, const ReducePlan& plan, const GivenResults& given,
                           at::Device device) {
  ReduceResults results;
  for (size_t i = 0; i < static_cast<size_t>(op.num_outputs); ++i) {
    results[i] = given[i] != nullptr ? *given[i]
                                     : empty_cuda(plan.output_shape, plan.output_strides,
                                                  plan.result_dtypes[i], device);
  }
  return results;
}

}  // namespace

ReduceResults reduce(const OpInfo& op, const at::Tensor& given_input,
                     const iterlab::ReduceArguments& arguments, const GivenResults& given) {
  return with_torch_errors([&] {
    const at::Tensor changed = without_nan(op, given_input, arguments, given);
    const at::Tensor& input = changed.defined() ? changed : given_input;
    for (const at::Tensor* const output : given) {
      if (output != nullptr) check_device(op, *output, input.device());
    }
    check_device(op, input, input.device());
    const c10::cuda::CUDAGuard guard(input.device());
    ReducePlan plan;
    plan_reduction(op, input, arguments, given, plan);
    warn_of_degrees_of_freedom(plan, input.numel(), arguments.number);
    ReduceResults results = make_results(op, plan, given, input.device());
    resize_outputs(plan, input, arguments, given);
    if (plan.outputs == 0) return results;
    if (input.numel() != 0) warn_of_lost_imaginary_parts(plan.input_dtype, plan.element_dtype);
    char* outputs[kMaxResults] = {};
    for (size_t i = 0; i < static_cast<size_t>(op.num_outputs); ++i)
      outputs[i] = static_cast<char*>(results[i].mutable_data_ptr());
    at::Tensor keep[2];
    run_reduction(
        plan, *kernel_table().reduce[kernel_index(op)], outputs,
        static_cast<const char*>(input.const_data_ptr()),
        [&](int64_t tickets, int64_t bytes) { return current_workspace(tickets, bytes, keep); },
        current_context());
    return results;
  });
}

}  // namespace iterlab::cuda
