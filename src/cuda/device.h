// The current device, and memory from PyTorch's caching allocator.
#pragma once

#include "engine/cuda/elementwise.h"
#include "src/operands.h"

namespace iterlab::cuda {

// PyTorch's current stream of the current device.
Context current_context();

// A new tensor in the plan's layout.
at::Tensor empty_cuda(const Dims& sizes, const Dims& strides, DType dtype, at::Device device);

}  // namespace iterlab::cuda
