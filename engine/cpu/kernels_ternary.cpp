// The kernels of operators with three tensor inputs, and clamps.
#include "engine/cpu/lanes.h"
#include "engine/cpu/vec_binary.h"
#include "iterlab/ops/ternary.h"

namespace iterlab::cpu {
inline namespace CPU_CAPABILITY {

void append_ternary_kernels(const ElementwiseKernels**& next) {
  append_kernels(ops::TernaryOps{}, next);
}

}  // namespace CPU_CAPABILITY
}  // namespace iterlab::cpu
