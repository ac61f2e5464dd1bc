// What the planner is told of a call, and what a kernel is given beside tensors: the same on every
// backend, in concrete sizes or symbolic ones.
#pragma once

#include "src/call.h"
#include "src/reduction_call.h"

#include <c10/core/SymInt.h>

#include <algorithm>

namespace iterlab {

template <class Int>
BasicOperand<Int> describe(const at::Tensor& tensor) {
  if constexpr (std::is_same_v<Int, c10::SymInt>) {
    BasicOperand<c10::SymInt> operand;
    const auto shape = tensor.sym_sizes(), strides = tensor.sym_strides();
    operand.sizes = {shape.data(), shape.size()};
    operand.strides = {strides.data(), strides.size()};
    operand.dtype = tensor.scalar_type();
    operand.is_wrapped_number = tensor.unsafeGetTensorImpl()->is_wrapped_number();
    return operand;
  } else {
    return as_operand(tensor);
  }
}

// Outputs come first.
template <class Int>
void describe_call(const OpInfo& op, const Arguments& arguments, Output output,
                   BasicOperands<Int>& operands) {
  operands.num_outputs = 1;
  operands.num_inputs = arguments.num_tensors;
  plan_parameters(op, arguments, operands);
  if (output.kind != OutputKind::Allocated) operands.output(0) = describe<Int>(*output.tensor);
  operands.output(0).output_kind = output.kind;
  for (int i = 0; i < arguments.num_tensors; ++i) {
    operands.input(i) = describe<Int>(*arguments.tensors[i]);
    if (output.kind == OutputKind::Given && output.tensor->is_same(*arguments.tensors[i]))
      operands.output_is_input = true;
  }
}

template <class Int>
void describe_reduction(const OpInfo& op, const at::Tensor& input, const ReduceArguments& arguments,
                        const GivenResults& given, BasicOperands<Int>& operands) {
  operands.num_outputs = op.num_outputs;
  operands.num_inputs = 1;
  operands.dtype_argument = arguments.dtype.value_or(DType::Undefined);
  operands.default_dtype = c10::get_default_dtype_as_scalartype();
  for (int i = 0; i < op.num_outputs; ++i) {
    const at::Tensor* const output = given[static_cast<size_t>(i)];
    if (output != nullptr) operands.output(i) = describe<Int>(*output);
    operands.output(i).output_kind = output != nullptr ? OutputKind::Given : OutputKind::Allocated;
  }
  operands.input(0) = describe<Int>(input);
}

// The numbers that a functor is given: the parameters, and the one behind Extra. `buffer` is where
// they are put together.
inline const Number* functor_numbers(const OpInfo& op, const Arguments& arguments,
                                     DType common_dtype, Number (&buffer)[kMaxParameters + 1]) {
  const bool rounds = op.rounds_parameters && common_dtype != compute_dtype(common_dtype);
  if (op.extra == Extra::None && !rounds) return arguments.parameters;
  for (int i = 0; i < arguments.num_parameters; ++i) {
    const Number& given = arguments.parameters[i];
    buffer[i] = rounds ? rounded_number(given, common_dtype) : given;
  }
  if (op.extra != Extra::None)
    buffer[arguments.num_parameters] = extra_number(op, arguments, common_dtype);
  return buffer;
}

}  // namespace iterlab
