// The CUDA kernels of the extreme reductions.
#include "engine/cuda/reduce_list.cuh"
#include "iterlab/ops/reduce.h"

namespace iterlab::cuda {

void append_extreme_kernels(const ReduceKernels**& next) {
  append_reduce_kernels(ops::ExtremeOps{}, next);
}

}  // namespace iterlab::cuda
