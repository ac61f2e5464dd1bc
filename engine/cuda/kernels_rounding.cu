// The CUDA kernels of the operators in iterlab/ops/rounding.h.
#include "engine/cuda/complex_math.cuh"
#include "engine/cuda/kernel_list.cuh"
#include "iterlab/ops/rounding.h"

namespace iterlab::cuda {

void append_rounding_kernels(const OpKernels**& next) { append_kernels(ops::RoundingOps{}, next); }

}  // namespace iterlab::cuda
