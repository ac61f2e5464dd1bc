// The call template of reductions on the CPU.
#include "src/reduction_call.h"

#include "engine/cpu/reduce.h"
#include "engine/kernel_table.h"
#include "engine/op_table.h"
#include "src/describe.h"
#include "src/profiler_range.h"
#include "src/resize.h"
#include "src/warnings.h"

namespace iterlab {
namespace {

void check_reduction_devices(const OpInfo& op, const at::Tensor& input, const GivenResults& given) {
  Arguments tensors;
  tensors.add_operand(input);
  for (const at::Tensor* const output : given) check_devices(op, tensors, output, at::kCPU);
}

// The results that are not given.
ReduceResults allocate_results(const OpInfo& op, const ReducePlan& plan,
                               const GivenResults& given) {
  ReduceResults results;
  for (size_t i = 0; i < static_cast<size_t>(op.num_outputs); ++i) {
    if (given[i] == nullptr)
      results[i] = empty_cpu(plan.output_shape, plan.output_strides, plan.result_dtypes[i]);
  }
  return results;
}

}  // namespace

ReduceRequest reduce_request(const OpInfo& op, int64_t ndim, const ReduceArguments& arguments) {
  std::optional<std::span<const int64_t>> dims;
  if (arguments.dims) dims = {arguments.dims->data(), arguments.dims->size()};
  ReduceRequest request;
  request.dims = reduced_dims(dims, static_cast<int>(ndim), op);
  request.dims_given = dims && !dims->empty();
  request.keepdim = arguments.keepdim;
  request.number = arguments.number;
  return request;
}

static void plan_reduction(const OpInfo& op, const at::Tensor& input,
                           const ReduceArguments& arguments, const GivenResults& given,
                           bool recorded, ReducePlan& plan) {
  const ProfilerRange range(recorded, &plan_range);
  Operands operands;
  check_reduction_devices(op, input, given);
  describe_reduction(op, input, arguments, given, operands);
  make_reduce_plan(operands, reduce_request(op, input.dim(), arguments), op, plan);
}

at::Tensor without_nan(const OpInfo& op, const at::Tensor& input, const ReduceArguments& arguments,
                       const GivenResults& given) {
  std::optional<at::ScalarType> dtype = arguments.dtype;
  if (!dtype && given[0] != nullptr) dtype = given[0]->scalar_type();
  const bool to_integers = dtype && c10::isIntegralType(*dtype, true);
  if (!op.reduction.skips_nan || !to_integers || !input.is_floating_point()) return {};
  return input.masked_fill(input.isnan(), 0);
}

ReduceResults try_reduce_cpu(const OpInfo& op, const at::Tensor& given_input,
                             const ReduceArguments& arguments, const GivenResults& given) {
  const at::Tensor changed = without_nan(op, given_input, arguments, given);
  const at::Tensor& input = changed.defined() ? changed : given_input;
  const bool recorded = is_recorded();
  ReducePlan plan;
  plan_reduction(op, input, arguments, given, recorded, plan);
  warn_of_degrees_of_freedom(plan, input.numel(), arguments.number);
  ReduceResults results = allocate_results(op, plan, given);
  resize_outputs(plan, input, arguments, given);
  if (plan.outputs == 0) return results;
  if (input.numel() != 0) warn_of_lost_imaginary_parts(plan.input_dtype, plan.element_dtype);
  const cpu::KernelTable& table = kernel_table();
  char* outputs[kMaxResults] = {};
  for (size_t i = 0; i < static_cast<size_t>(op.num_outputs); ++i) {
    const at::Tensor& result = given[i] == nullptr ? results[i] : *given[i];
    outputs[i] = static_cast<char*>(result.mutable_data_ptr());
  }
  const ProfilerRange range(recorded, [&] {
    return loop_range(op.name, kReduceFormNames[static_cast<size_t>(plan.form)]);
  });
  cpu::run_reduction(plan, *table.reduce[kernel_index(op)], table.stage, outputs,
                     static_cast<const char*>(input.const_data_ptr()), torch_parallel());
  return results;
}

ReduceResults reduce_cpu(const OpInfo& op, const at::Tensor& input,
                         const ReduceArguments& arguments, const GivenResults& given) {
  return with_torch_errors([&] { return try_reduce_cpu(op, input, arguments, given); });
}

}  // namespace iterlab
