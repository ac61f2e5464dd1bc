// The CUDA kernels of the operators in iterlab/ops/special.h.
#include "engine/cuda/kernel_list.cuh"
#include "engine/cuda/special.cuh"
#include "iterlab/ops/special.h"

namespace iterlab::cuda {

void append_special_kernels(const OpKernels**& next) { append_kernels(ops::SpecialOps{}, next); }

}  // namespace iterlab::cuda
