// The CUDA kernels of the binary list.
#include "engine/cuda/kernel_list.cuh"
#include "iterlab/ops/binary.h"

namespace iterlab::cuda {

void append_binary_kernels(const OpKernels**& next) { append_kernels(ops::BinaryOps{}, next); }

}  // namespace iterlab::cuda
