// The kernels of mathematical functions of two operands.
#include "engine/cpu/lanes.h"
#include "engine/cpu/vec_binary.h"
#include "iterlab/ops/binary_math.h"

namespace iterlab::cpu {
inline namespace CPU_CAPABILITY {

void append_binary_math_kernels(const ElementwiseKernels**& next) {
  append_kernels(ops::BinaryMathOps{}, next);
}

}  // namespace CPU_CAPABILITY
}  // namespace iterlab::cpu
