// The CUDA kernels of the operators in iterlab/ops/data.h.
#include "engine/cuda/complex_math.cuh"
#include "engine/cuda/kernel_list.cuh"
#include "iterlab/ops/data.h"

namespace iterlab::cuda {

void append_data_kernels(const OpKernels**& next) { append_kernels(ops::DataOps{}, next); }

}  // namespace iterlab::cuda
