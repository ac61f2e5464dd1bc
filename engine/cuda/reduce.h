// Runs a reduction plan on a GPU.
#pragma once

#include "engine/cuda/elementwise.h"

#include <functional>

namespace iterlab::cuda {

// Memory for states between blocks: tickets, which are 0 and are left 0, and room for states. Asked
// for by calls that split an output only.
struct Workspace {
  uint32_t* tickets = nullptr;
  char* states = nullptr;
};
using WorkspaceSource = std::function<Workspace(int64_t tickets, int64_t state_bytes)>;

// Launches the plan's kernel and returns; nothing waits. Raises PlanError where the launch fails.
void run_reduction(const ReducePlan& plan, const ReduceKernels& kernels, char* const* outputs,
                   const char* input, const WorkspaceSource& workspace, const Context& context);

}  // namespace iterlab::cuda
