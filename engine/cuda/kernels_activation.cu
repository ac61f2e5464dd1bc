// The CUDA kernels of the operators in iterlab/ops/activation.h.
#include "engine/cuda/complex_math.cuh"
#include "engine/cuda/kernel_list.cuh"
#include "engine/cuda/short_math.cuh"
#include "iterlab/ops/activation.h"

namespace iterlab::cuda {

void append_activation_kernels(const OpKernels**& next) {
  append_kernels(ops::ActivationOps{}, next);
}

}  // namespace iterlab::cuda
