// The CUDA kernels of the ternary list.
#include "engine/cuda/kernel_list.cuh"
#include "iterlab/ops/ternary.h"

namespace iterlab::cuda {

void append_ternary_kernels(const OpKernels**& next) { append_kernels(ops::TernaryOps{}, next); }

}  // namespace iterlab::cuda
