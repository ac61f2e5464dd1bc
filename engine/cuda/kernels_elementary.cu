// The CUDA kernels of the operators in iterlab/ops/elementary.h.
#include "engine/cuda/complex_math.cuh"
#include "engine/cuda/kernel_list.cuh"
#include "engine/cuda/short_math.cuh"
#include "iterlab/ops/elementary.h"

namespace iterlab::cuda {

void append_elementary_kernels(const OpKernels**& next) {
  append_kernels(ops::ElementaryOps{}, next);
}

}  // namespace iterlab::cuda
