// Tensors to operands and back: the only place where the engine's view of a call is made from
// at::Tensor.
#pragma once

#include "iterlab/error.h"
#include "iterlab/math_binary.h"
#include "iterlab/operand.h"
#include "iterlab/parallel.h"
#include "iterlab/plan.h"

#include <ATen/core/Tensor.h>
#include <c10/core/DefaultDtype.h>

#include <algorithm>

namespace iterlab {

inline constexpr int kMaxScalarOperands = 3;

// The arguments of one call, whatever its schema. Not copied: it points into itself.
struct Arguments {
  const at::Tensor* tensors[kMaxOperands];
  int num_tensors = 0;
  at::Tensor wrapped[kMaxScalarOperands];  // numbers given as operands, as 0-d tensors that are
                                           // weak in promotion
  int num_wrapped = 0;
  const at::Scalar* numbers[kMaxOperands];     // the numbers themselves; null for tensors
  Number parameters[kMaxParameters];           // in the order of the definition, but for the dtype
  const at::Scalar* symbolic[kMaxParameters];  // those of them that are symbolic; null for others
  int num_parameters = 0;
  at::ScalarType dtype = at::ScalarType::Undefined;
  std::optional<at::MemoryFormat> memory_format;

  Arguments() = default;
  Arguments(const Arguments&) = delete;
  Arguments& operator=(const Arguments&) = delete;

  void add_operand(const at::Tensor& tensor) {
    numbers[num_tensors] = nullptr;
    tensors[num_tensors++] = &tensor;
  }
  void add_operand(const at::Scalar& number);
  void add_parameter(const at::Scalar& value);
  void add_parameter(at::ScalarType value) { dtype = value; }
  void add_parameter(std::optional<at::MemoryFormat> value) { memory_format = value; }
  void add_parameter(int64_t value) { add_number(Number::of(value)); }
  void add_parameter(bool value) { add_number(Number::of(value)); }
  void add_parameter(double value) { add_number(Number::of(value)); }
  void add_parameter(const std::optional<double>& value);
  // One of the parameter's choices: its position, or -1, which check_parameters refuses.
  void add_choice(const Parameter& parameter, const std::optional<c10::string_view>& value);

  // The number that operand i is, where it is one. Its tensor need not tell: under FakeTensorMode
  // it has no value.
  std::optional<at::Scalar> number(int i) const;

  bool has_symbolic_parameters() const {
    return std::any_of(symbolic, symbolic + num_parameters,
                       [](const at::Scalar* one) { return one != nullptr; });
  }

 private:
  void add_number(const Number& number) {
    symbolic[num_parameters] = nullptr;
    parameters[num_parameters++] = number;
  }
};

Operand as_operand(const at::Tensor& tensor);
at::IntArrayRef as_sizes(const Dims& dims);

// Note [Symbolic numbers]
// While a graph is traced, a number may be a symbol: a size, a float that is an argument. Its value
// must not be asked for, or the graph is for that value alone. So it stays the at::Scalar that was
// given, for derivatives, and counts as a one where only the kind of a number matters; checks of
// its value are left to the call that the graph makes.

// The number's value; of a symbol, a one.
Number as_number(const at::Scalar& scalar);

// A new tensor in the plan's layout, on the CPU.
at::Tensor empty_cpu(const Dims& sizes, const Dims& strides, DType dtype);
at::Tensor empty_cpu(at::IntArrayRef sizes, DType dtype);  // contiguous

// torch's thread pool.
Parallel torch_parallel();

// Every operand must be on `device`, but for 0-d CPU tensors, which any device takes by value.
void check_devices(const OpInfo& op, const Arguments& arguments, const at::Tensor* output,
                   at::DeviceType device);

// The dtype that operands which are all numbers promote to.
at::ScalarType number_dtype(const OpInfo& op, const Arguments& arguments);

at::Scalar as_scalar(const Number& number);
MemoryFormat as_memory_format(const std::optional<at::MemoryFormat>& format);

// The parameters and the numbers of a call, checked as the definition asks.
void check_parameters(const OpInfo& op, const Arguments& arguments, DType common_dtype);
void check_numbers(const OpInfo& op, const Arguments& arguments, DType common_dtype);

// Whether the rounding parameter is not its first choice.
inline bool rounds(const OpInfo& op, const Arguments& arguments) {
  return op.rounding_parameter >= 0 && arguments.parameters[op.rounding_parameter].integer != 0;
}

// What the planner is told of the arguments that are not operands.
template <class Int>
void plan_parameters(const OpInfo& op, const Arguments& arguments, BasicOperands<Int>& operands) {
  operands.dtype_argument = arguments.dtype;
  operands.default_dtype = c10::get_default_dtype_as_scalartype();
  operands.rounds = rounds(op, arguments);
  operands.memory_format = as_memory_format(arguments.memory_format);
}

// A real number as a half type holds it.
Number rounded_number(const Number& number, DType half_dtype);

// The number behind Extra.
Number extra_number(const OpInfo& op, const Arguments& arguments, DType common_dtype);

// Runs `fn`, turning a PlanError into the exception that ATen raises.
template <class Fn>
auto with_torch_errors(Fn&& fn) {
  try {
    return fn();
  } catch (const PlanError& error) {
    switch (error.kind()) {
      case PlanError::Kind::Index:
        TORCH_CHECK_INDEX(false, error.what());
      case PlanError::Kind::Type:
        TORCH_CHECK_TYPE(false, error.what());
      case PlanError::Kind::Value:
        TORCH_CHECK_VALUE(false, error.what());
      case PlanError::Kind::NotImplemented:
        TORCH_CHECK_NOT_IMPLEMENTED(false, error.what());
      default:
        TORCH_CHECK(false, error.what());
    }
  } catch (const ZeroDivision& error) {
    TORCH_CHECK(false, error.what());
  }
}

}  // namespace iterlab
