// The kernels of operators of integers and bits.
#include "engine/cpu/lanes.h"
#include "engine/cpu/vec_binary.h"
#include "iterlab/ops/integer.h"

namespace iterlab::cpu {
inline namespace CPU_CAPABILITY {

void append_integer_kernels(const ElementwiseKernels**& next) {
  append_kernels(ops::IntegerOps{}, next);
}

}  // namespace CPU_CAPABILITY
}  // namespace iterlab::cpu
