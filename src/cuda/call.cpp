// The call template on CUDA: operands → plan → result → launch.
#include "engine/cuda/elementwise.h"
#include "engine/cuda/launch_note.h"
#include "engine/op_table.h"
#include "engine/plan.h"
#include "src/cuda/device.h"
#include "src/cuda/reduce.h"
#include "src/cuda_backend.h"
#include "src/describe.h"
#include "src/profiler_range.h"
#include "src/resize.h"
#include "src/warnings.h"

#include <c10/cuda/CUDAGuard.h>

namespace iterlab::cuda {
namespace {

bool is_number(const at::Tensor& tensor) { return tensor.dim() == 0 && tensor.device().is_cpu(); }

// The device of the call: every tensor must be there, but for 0-d CPU inputs, which travel by
// value.
at::Device device_of(const OpInfo& op, const iterlab::Arguments& arguments,
                     const at::Tensor* output) {
  const at::Tensor* first = output;
  for (int i = 0; first == nullptr && i < arguments.num_tensors; ++i) {
    if (!is_number(*arguments.tensors[i])) first = arguments.tensors[i];
  }
  const at::Device device = first != nullptr ? first->device() : at::Device(at::kCUDA, 0);
  const auto check = [&](const at::Tensor& tensor) {
    if (tensor.device() == device && device.is_cuda()) return;
    throw PlanError(PlanError::Kind::Runtime, op,
                    "expected all operands on " + (device.is_cuda() ? device.str() : "CUDA") +
                        ", got one on " + tensor.device().str());
  };
  if (output != nullptr) check(*output);
  for (int i = 0; i < arguments.num_tensors; ++i) {
    if (!is_number(*arguments.tensors[i])) check(*arguments.tensors[i]);
  }
  return device;
}

// Its range is on the timeline; kernels stand there by their own names. Note [Ranges]
void plan_call(const OpInfo& op, const iterlab::Arguments& arguments, Output output, Plan& plan) {
  const ProfilerRange range(is_recorded(), &plan_range);
  Operands operands;
  describe_call(op, arguments, output, operands);
  make_plan(operands, op, plan);
  check_parameters(op, arguments, plan.common_dtype);
  check_numbers(op, arguments, plan.common_dtype);
}

at::Tensor make_result(const Plan& plan, const iterlab::Arguments& arguments, Output output,
                       at::Device device) {
  if (output.kind == OutputKind::Allocated)
    return empty_cuda(plan.shape, plan.output_strides, plan.result_dtype, device);
  resize_outputs(plan, arguments, output);
  return *output.tensor;
}

void run(const Plan& plan, const iterlab::Arguments& arguments, const at::Tensor& result) {
  OperandSource sources[kMaxOperands];
  Number numbers[kMaxOperands];
  sources[0].data = static_cast<char*>(result.mutable_data_ptr());
  for (int i = 0; i < arguments.num_tensors; ++i) {
    const at::Tensor& tensor = *arguments.tensors[i];
    if (is_number(tensor)) {
      numbers[i] = as_number(tensor.item());
      sources[i + 1].number = &numbers[i];
    } else {
      sources[i + 1].data = static_cast<char*>(const_cast<void*>(tensor.const_data_ptr()));
    }
  }
  Number buffer[kMaxParameters + 1];
  const Number* const parameters = functor_numbers(*plan.op, arguments, plan.common_dtype, buffer);
  run_elementwise(plan, *kernel_table().elementwise[kernel_index(*plan.op)], sources, parameters,
                  current_context());
}

at::Tensor call(const OpInfo& op, const iterlab::Arguments& arguments, Output output) {
  return with_torch_errors([&] {
    const at::Device device = device_of(op, arguments, output.tensor);
    const c10::cuda::CUDAGuard guard(device);
    Plan plan;
    plan_call(op, arguments, output, plan);
    at::Tensor result = make_result(plan, arguments, output, device);
    warn_of_uint8_conditions(op, arguments);
    if (plan.numel == 0) return result;
    warn_of_lost_imaginary_parts(op, arguments, plan.common_dtype, output);
    run(plan, arguments, result);
    return result;
  });
}

// Handed over when the library is loaded. Note [The CUDA library]
[[maybe_unused]] const bool handed_over = [] {
  set_cuda_backend({&call, &reduce, &note_launches});
  return true;
}();

}  // namespace
}  // namespace iterlab::cuda
