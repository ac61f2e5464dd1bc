// The CUDA kernels, as a table of entry points. The host loops launch them; they know neither
// operators nor layouts beyond their arguments.
#pragma once

#include "iterlab/dtype.h"
#include "iterlab/plan.h"

namespace iterlab::cuda {

// The kernels of one operator in one compute type, by path. Null: the operator does not compute the
// type, or (strided, tiled) the type is rare and takes the generic kernel.
struct ElementwiseKernels {
  const void* by_path[kPathNames.size()];
};

// By compute type.
struct OpKernels {
  ElementwiseKernels by_type[kNumComputeTypes];
};

struct KernelTable {
  const OpKernels* const* elementwise;  // in the order of iterlab/ops.h
};

const KernelTable& kernel_table();

}  // namespace iterlab::cuda
