// The kernels of elementary functions.
#include "engine/cpu/lanes.h"
#include "engine/cpu/vml.h"
#include "iterlab/ops/elementary.h"

namespace iterlab::cpu {
inline namespace CPU_CAPABILITY {

void append_elementary_kernels(const ElementwiseKernels**& next) {
  append_kernels(ops::ElementaryOps{}, next);
}

}  // namespace CPU_CAPABILITY
}  // namespace iterlab::cpu
