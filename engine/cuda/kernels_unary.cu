// The CUDA kernels of unary operators.
#include "engine/cuda/kernel_list.cuh"
#include "iterlab/ops/unary.h"

namespace iterlab::cuda {

void append_unary_kernels(const OpKernels**& next) { append_kernels(ops::UnaryOps{}, next); }

}  // namespace iterlab::cuda
