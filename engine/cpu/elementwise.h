// Runs an elementwise plan on the CPU.
#pragma once

#include "engine/cpu/kernel_table.h"
#include "iterlab/parallel.h"
#include "iterlab/plan.h"

namespace iterlab::cpu {

// `data`: a pointer for each operand, outputs first, to its first element. `parameters`: the
// functor's numbers.
void run_elementwise(const Plan& plan, const ElementwiseKernels& kernels, const StageKernels& stage,
                     char* const* data, const Number* parameters, const Parallel& parallel);

}  // namespace iterlab::cpu
