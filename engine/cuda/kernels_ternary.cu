// The CUDA kernels of the operators in iterlab/ops/ternary.h.
#include "engine/cuda/kernel_list.cuh"
#include "engine/cuda/special_binary.cuh"
#include "iterlab/ops/ternary.h"

namespace iterlab::cuda {

void append_ternary_kernels(const OpKernels**& next) { append_kernels(ops::TernaryOps{}, next); }

}  // namespace iterlab::cuda
