// What operators say to sparse, quantized, mkldnn and nested tensors, for which they have no loops.
#pragma once

#include <ATen/core/boxing/KernelFunction.h>

namespace iterlab {

// A kernel of any signature that raises NotImplementedError: which argument is of which kind, and
// what to make of it.
c10::KernelFunction refuse_layout();

}  // namespace iterlab
