// The CUDA kernels of the operators in iterlab/ops/binary_math.h.
#include "engine/cuda/kernel_list.cuh"
#include "engine/cuda/special_binary.cuh"
#include "iterlab/ops/binary_math.h"

namespace iterlab::cuda {

void append_binary_math_kernels(const OpKernels**& next) {
  append_kernels(ops::BinaryMathOps{}, next);
}

}  // namespace iterlab::cuda
