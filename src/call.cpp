// The call template on the CPU.
#include "src/call.h"

#include "engine/cpu/elementwise.h"
#include "engine/cpu/share.h"
#include "engine/kernel_table.h"
#include "engine/op_table.h"
#include "engine/plan.h"
#include "src/describe.h"
#include "src/profiler_range.h"
#include "src/resize.h"
#include "src/small_call.h"
#include "src/warnings.h"

namespace iterlab {
namespace {

void plan_call(const OpInfo& op, const Arguments& arguments, Output output, bool recorded,
               Plan& plan) {
  const ProfilerRange range(recorded, &plan_range);
  Operands operands;
  check_devices(op, arguments, output.tensor, at::kCPU);
  describe_call(op, arguments, output, operands);
  make_plan(operands, op, plan);
  if (output.exact && output.tensor->scalar_type() != plan.result_dtype)
    throw PlanError(PlanError::Kind::Runtime, op, "expected an output of the result's dtype");
  check_parameters(op, arguments, plan.common_dtype);
  check_numbers(op, arguments, plan.common_dtype);
}

// Allocates the result, or resizes the given output; gives the former.
at::Tensor make_result(const Plan& plan, const Arguments& arguments, Output output) {
  if (output.kind == OutputKind::Allocated)
    return empty_cpu(plan.shape, plan.output_strides, plan.result_dtype);
  resize_outputs(plan, arguments, output);
  return {};
}

void run(const Plan& plan, const Arguments& arguments, const at::Tensor& result, bool recorded) {
  char* data[kMaxOperands];
  data[0] = static_cast<char*>(result.mutable_data_ptr());
  for (int i = 0; i < arguments.num_tensors; ++i) {
    data[i + 1] = static_cast<char*>(const_cast<void*>(arguments.tensors[i]->const_data_ptr()));
  }
  Number buffer[kMaxParameters + 1];
  const Number* const numbers = functor_numbers(*plan.op, arguments, plan.common_dtype, buffer);
  const cpu::KernelTable& table = kernel_table();
  const ProfilerRange range(recorded, [&] {
    return loop_range(plan.op->name, kPathNames[static_cast<size_t>(plan.path)]);
  });
  const bool alone = static_cast<double>(plan.bytes) * plan.op->cost < 2 * cpu::kGrainBytes;
  cpu::run_elementwise(plan, *table.elementwise[kernel_index(*plan.op)], table.stage, data, numbers,
                       alone ? Parallel{} : torch_parallel());
}

}  // namespace

at::Tensor try_call_cpu(const OpInfo& op, const Arguments& arguments, Output output) {
  const bool recorded = is_recorded();
  at::Tensor allocated;
  if (!recorded && call_small(op, arguments, output, allocated)) return allocated;
  Plan plan;
  plan_call(op, arguments, output, recorded, plan);
  allocated = make_result(plan, arguments, output);
  const at::Tensor& result = allocated.defined() ? allocated : *output.tensor;
  warn_of_uint8_conditions(op, arguments);
  if (plan.numel == 0) return allocated;
  warn_of_lost_imaginary_parts(op, arguments, plan.common_dtype, output);
  run(plan, arguments, result, recorded);
  return allocated;
}

at::Tensor call_cpu(const OpInfo& op, const Arguments& arguments, Output output) {
  return with_torch_errors([&] { return try_call_cpu(op, arguments, output); });
}

}  // namespace iterlab
