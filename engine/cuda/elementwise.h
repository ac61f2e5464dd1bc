// Runs an elementwise plan on a GPU.
#pragma once

#include "engine/cuda/kernel_table.h"
#include "iterlab/number.h"

namespace iterlab::cuda {

// Where kernels go: a stream of the current device (a cudaStream_t), and what is known of the
// device.
struct Context {
  void* stream = nullptr;
  int multiprocessors = 1;
  bool overlaps = false;  // Note [Overlapping launches]
};

// One operand: memory of the device, or a number that travels with the launch.
struct OperandSource {
  char* data = nullptr;
  const Number* number = nullptr;
};

// Launches the plan's kernel and returns; nothing waits. `operands`: outputs first. Raises
// PlanError where the launch fails.
void run_elementwise(const Plan& plan, const OpKernels& kernels, const OperandSource* operands,
                     const Number* parameters, const Context& context);

}  // namespace iterlab::cuda
