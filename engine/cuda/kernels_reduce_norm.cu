// The CUDA kernels of norms.
#include "engine/cuda/reduce_list.cuh"
#include "iterlab/ops/reduce.h"

namespace iterlab::cuda {

void append_norm_kernels(const ReduceKernels**& next) {
  append_reduce_kernels(ops::NormOps{}, next);
}

}  // namespace iterlab::cuda
