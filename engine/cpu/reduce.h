// Runs a reduction plan on the CPU.
#pragma once

#include "engine/cpu/kernel_table.h"
#include "iterlab/parallel.h"
#include "iterlab/reduce_plan.h"

namespace iterlab::cpu {

void run_reduction(const ReducePlan& plan, const ReduceKernels& kernels, const StageKernels& stage,
                   char* const* outputs, const char* input, const Parallel& parallel);

}  // namespace iterlab::cpu
