// The kernels of binary operators.
#include "engine/cpu/lanes.h"
#include "iterlab/ops/binary.h"

namespace iterlab::cpu {
inline namespace CPU_CAPABILITY {

void append_binary_kernels(const ElementwiseKernels**& next) {
  append_kernels(ops::BinaryOps{}, next);
}

}  // namespace CPU_CAPABILITY
}  // namespace iterlab::cpu
