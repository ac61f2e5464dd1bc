// The kernels of arithmetic with two operands.
#include "engine/cpu/lanes.h"
#include "engine/cpu/vec_binary.h"
#include "iterlab/ops/binary.h"

namespace iterlab::cpu {
inline namespace CPU_CAPABILITY {

void append_binary_kernels(const ElementwiseKernels**& next) {
  append_kernels(ops::BinaryOps{}, next);
}

}  // namespace CPU_CAPABILITY
}  // namespace iterlab::cpu
