// The kernels of special functions.
#include "engine/cpu/lanes.h"
#include "engine/cpu/vml.h"
#include "iterlab/ops/special.h"

namespace iterlab::cpu {
inline namespace CPU_CAPABILITY {

void append_special_kernels(const ElementwiseKernels**& next) {
  append_kernels(ops::SpecialOps{}, next);
}

}  // namespace CPU_CAPABILITY
}  // namespace iterlab::cpu
