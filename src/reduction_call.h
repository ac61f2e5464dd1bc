// The call template of reductions: operands → plan → results → run. Meta stops before the run.
#pragma once

#include "engine/reduce_plan.h"
#include "src/operands.h"

#include <optional>

namespace iterlab {

// What a reduction takes besides its input.
struct ReduceArguments {
  at::OptionalIntArrayRef dims;
  bool keepdim = false;
  std::optional<at::ScalarType> dtype;
  double number = 1;  // a norm's order; a variance's correction, 1 where none is given

  void add(at::OptionalIntArrayRef value) { dims = value; }
  void add(bool value) { keepdim = value; }
  void add(std::optional<at::ScalarType> value) { dtype = value; }
  void add(const at::Scalar& value) { number = value.toDouble(); }
  void add(const std::optional<at::Scalar>& value) { number = value ? value->toDouble() : 1; }
};

using ReduceResults = std::array<at::Tensor, kMaxResults>;
// Given results, in the order of the schema; null: the call makes them.
using GivenResults = std::array<at::Tensor*, kMaxResults>;

// The dims and the number of a call. Raises as torch does for dims that are not there.
ReduceRequest reduce_request(const OpInfo& op, int64_t ndim, const ReduceArguments& arguments);

// The input with 0 for NaN, of a reduction that skips them and converts elements to integers, which
// cannot be NaN; undefined for any other.
at::Tensor without_nan(const OpInfo& op, const at::Tensor& input, const ReduceArguments& arguments,
                       const GivenResults& given);

// Computes the results, on the CPU. Returns those that it allocates, undefined tensors in place of
// those that are given. Note [No copies of tensors]
ReduceResults reduce_cpu(const OpInfo& op, const at::Tensor& input,
                         const ReduceArguments& arguments, const GivenResults& given);
// The same, with a PlanError where the call is not one that the operator takes; nothing has been
// touched then but the shape of a given output.
ReduceResults try_reduce_cpu(const OpInfo& op, const at::Tensor& input,
                             const ReduceArguments& arguments, const GivenResults& given);
// The results' shapes, dtypes and strides, on symbolic sizes.
ReduceResults reduce_meta(const OpInfo& op, const at::Tensor& input,
                          const ReduceArguments& arguments, const GivenResults& given);

}  // namespace iterlab
