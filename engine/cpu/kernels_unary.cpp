// The kernels of unary operators.
#include "engine/cpu/lanes.h"
#include "iterlab/ops/unary.h"

namespace iterlab::cpu {
inline namespace CPU_CAPABILITY {

void append_unary_kernels(const ElementwiseKernels**& next) {
  append_kernels(ops::UnaryOps{}, next);
}

}  // namespace CPU_CAPABILITY
}  // namespace iterlab::cpu
