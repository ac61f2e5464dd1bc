// The CUDA kernels of the moment reductions.
#include "engine/cuda/reduce_list.cuh"
#include "iterlab/ops/reduce.h"

namespace iterlab::cuda {

void append_moment_kernels(const ReduceKernels**& next) {
  append_reduce_kernels(ops::MomentOps{}, next);
}

}  // namespace iterlab::cuda
