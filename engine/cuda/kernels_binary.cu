// The CUDA kernels of the operators in iterlab/ops/binary.h.
#include "engine/cuda/kernel_list.cuh"
#include "engine/cuda/special_binary.cuh"
#include "iterlab/ops/binary.h"

namespace iterlab::cuda {

void append_binary_kernels(const OpKernels**& next) { append_kernels(ops::BinaryOps{}, next); }

}  // namespace iterlab::cuda
