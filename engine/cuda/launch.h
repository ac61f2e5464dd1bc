// One kernel launch, checked.
#pragma once

#include "engine/cuda/elementwise.h"
#include "engine/cuda/launch_note.h"
#include "iterlab/op.h"

namespace iterlab::cuda {

// Launches `kernel` with its one argument, or notes that it would. Raises PlanError, naming the
// operator, where the driver refuses.
void launch_kernel(const OpInfo& op, const char* what, const void* kernel, Grid grid, int threads,
                   int shared_bytes, void* arguments, const Context& context);

}  // namespace iterlab::cuda
