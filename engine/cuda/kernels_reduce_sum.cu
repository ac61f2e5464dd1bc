// The CUDA kernels of the sum reductions.
#include "engine/cuda/reduce_list.cuh"
#include "iterlab/ops/reduce.h"

namespace iterlab::cuda {

void append_sum_kernels(const ReduceKernels**& next) { append_reduce_kernels(ops::SumOps{}, next); }

}  // namespace iterlab::cuda
