// Memory that reductions use between blocks, kept for each stream.
#pragma once

#include "engine/cuda/reduce.h"

#include <ATen/core/Tensor.h>

namespace iterlab::cuda {

// The workspace of PyTorch's current stream, or a new one while a graph is being captured. `keep`
// holds what must outlive the launch's enqueueing.
Workspace current_workspace(int64_t tickets, int64_t state_bytes, at::Tensor (&keep)[2]);

}  // namespace iterlab::cuda
