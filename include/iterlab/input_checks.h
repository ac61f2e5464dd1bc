// Checks of inputs that several definitions share. What ATen checks by hand raises RuntimeError; a
// dtype that its kernels merely lack, NotImplementedError.
#pragma once

#include "iterlab/op.h"

namespace iterlab {

// Of the first N inputs.
template <int N>
constexpr const char* refuse_complex(const InputFacts* inputs) {
  for (int i = 0; i < N; ++i) {
    if (is_complex(inputs[i].dtype)) return "real operands";
  }
  return nullptr;
}

constexpr const char* refuse_bool(const InputFacts* inputs) {
  return inputs[0].dtype == DType::Bool ? "an operand of another dtype than bool" : nullptr;
}

}  // namespace iterlab
