// The CUDA kernels of the position reductions.
#include "engine/cuda/reduce_list.cuh"
#include "iterlab/ops/reduce.h"

namespace iterlab::cuda {

void append_position_kernels(const ReduceKernels**& next) {
  append_reduce_kernels(ops::PositionOps{}, next);
}

}  // namespace iterlab::cuda
