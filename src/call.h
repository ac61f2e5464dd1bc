// The call template: operands → plan → result → run, for every operator and variant. Meta stops
// before the run.
#pragma once

#include "src/operands.h"

#include <optional>

namespace iterlab {

// How a call's output comes about.
struct Output {
  OutputKind kind = OutputKind::Allocated;
  at::Tensor* tensor = nullptr;  // of Given and Inplace
  bool exact = false;            // of Given: it must have the result's dtype
};

// Compute the result, on the CPU. Return it where they allocate it, an undefined tensor where the
// output is given. Note [No copies of tensors]
at::Tensor call_cpu(const OpInfo& op, const Arguments& arguments, Output output);

// The same, with a PlanError where the call is not one that the operator takes; nothing has been
// touched then but the shape of a given output.
at::Tensor try_call_cpu(const OpInfo& op, const Arguments& arguments, Output output);

// Make the result's shape, dtype and strides, on symbolic sizes; return it.
at::Tensor call_meta(const OpInfo& op, const Arguments& arguments, Output output);

}  // namespace iterlab
