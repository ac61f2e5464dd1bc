// The CUDA kernels of the operators in iterlab/ops/comparison.h.
#include "engine/cuda/kernel_list.cuh"
#include "engine/cuda/special_binary.cuh"
#include "iterlab/ops/comparison.h"

namespace iterlab::cuda {

void append_comparison_kernels(const OpKernels**& next) {
  append_kernels(ops::ComparisonOps{}, next);
}

}  // namespace iterlab::cuda
