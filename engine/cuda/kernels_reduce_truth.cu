// The CUDA kernels of the truth reductions.
#include "engine/cuda/reduce_list.cuh"
#include "iterlab/ops/reduce.h"

namespace iterlab::cuda {

void append_truth_kernels(const ReduceKernels**& next) {
  append_reduce_kernels(ops::TruthOps{}, next);
}

}  // namespace iterlab::cuda
