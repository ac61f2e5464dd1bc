// The CUDA kernels of the operators in iterlab/ops/integer.h.
#include "engine/cuda/kernel_list.cuh"
#include "engine/cuda/special_binary.cuh"
#include "iterlab/ops/integer.h"

namespace iterlab::cuda {

void append_integer_kernels(const OpKernels**& next) { append_kernels(ops::IntegerOps{}, next); }

}  // namespace iterlab::cuda
