// Tensors to operands and back: the only place where the engine's view of a call is made from
// at::Tensor.
#pragma once

#include "iterlab/error.h"
#include "iterlab/operand.h"
#include "iterlab/parallel.h"
#include "iterlab/plan.h"

#include <ATen/core/Tensor.h>
#include <c10/core/DefaultDtype.h>

namespace iterlab {

inline constexpr int kMaxScalarOperands = 3;

// The arguments of one call, whatever its schema. Not copied: it points into itself.
struct Arguments {
  const at::Tensor* tensors[kMaxOperands];
  int num_tensors = 0;
  at::Tensor wrapped[kMaxScalarOperands];  // numbers given as operands, as 0-d tensors that are
                                           // weak in promotion
  int num_wrapped = 0;
  const at::Scalar* scalars[kMaxParameters];
  int num_scalars = 0;
  at::ScalarType dtype = at::ScalarType::Undefined;

  Arguments() = default;
  Arguments(const Arguments&) = delete;
  Arguments& operator=(const Arguments&) = delete;

  void add_operand(const at::Tensor& tensor) { tensors[num_tensors++] = &tensor; }
  void add_operand(const at::Scalar& number);
  void add_parameter(const at::Scalar& scalar) { scalars[num_scalars++] = &scalar; }
  void add_parameter(at::ScalarType value) { dtype = value; }
};

Operand as_operand(const at::Tensor& tensor);
at::IntArrayRef as_sizes(const Dims& dims);
Number as_number(const at::Scalar& scalar);

// A new tensor in the plan's layout, on the CPU.
at::Tensor empty_cpu(const Dims& sizes, const Dims& strides, DType dtype);

// out= of another shape is resized, with torch's warning, and gets `strides`.
void resize_output(const at::Tensor& output, const Dims& sizes, const Dims& strides);

// torch's thread pool.
Parallel torch_parallel();

// Every tensor must be on `device`.
void check_devices(const OpInfo& op, const Arguments& arguments, at::DeviceType device);

// The numbers that a functor takes, checked as their kinds ask.
void check_scalars(const OpInfo& op, const Arguments& arguments, DType common_dtype);

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
  }
}

}  // namespace iterlab
