// One kernel launch, checked.
#pragma once

#include "engine/cuda/elementwise.h"
#include "iterlab/op.h"

#include <cstdint>

namespace iterlab::cuda {

struct Grid {
  uint32_t x = 1, y = 1;
};

// Launches `kernel` with its one argument. Raises PlanError, naming the operator, where the driver
// refuses.
void launch_kernel(const OpInfo& op, const char* what, const void* kernel, Grid grid, int threads,
                   int shared_bytes, void* arguments, const Context& context);

}  // namespace iterlab::cuda
