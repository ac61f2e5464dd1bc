// Runs an elementwise plan on the CPU.
#pragma once

#include "engine/cpu/kernel_table.h"
#include "iterlab/parallel.h"
#include "iterlab/plan.h"

namespace iterlab::cpu {

// A functor's kernel, with all that a plan says of the lanes that it is given.
struct LaneKernel {
  LaneKernel(const Plan& plan, const ElementwiseKernels& kernels);

  void operator()(const LaneRows& tile, char* const* pointers, const Number* parameters) const {
    converting != nullptr ? converting(tile, pointers, formats, parameters)
                          : run_rows(tile, pointers, parameters);
  }
  // One run of lanes.
  void operator()(int64_t count, char* const* pointers, const Number* parameters) const {
    constexpr int64_t kNoPitches[kMaxOperands] = {};
    (*this)({count, 1, kNoPitches}, pointers, parameters);
  }

  LanesFn lanes;
  ConvertingLanesFn converting = nullptr;  // null where the plan does not convert
  LaneFormats formats{};
  int num_operands;

 private:
  void run_rows(const LaneRows& tile, char* const* pointers, const Number* parameters) const;
};

// `data`: a pointer for each operand, outputs first, to its first element. `parameters`: the
// functor's numbers.
void run_elementwise(const Plan& plan, const ElementwiseKernels& kernels, const StageKernels& stage,
                     char* const* data, const Number* parameters, const Parallel& parallel);

}  // namespace iterlab::cpu
