// The kernels of comparisons and logic.
#include "engine/cpu/lanes.h"
#include "engine/cpu/vec_binary.h"
#include "iterlab/ops/comparison.h"

namespace iterlab::cpu {
inline namespace CPU_CAPABILITY {

void append_comparison_kernels(const ElementwiseKernels**& next) {
  append_kernels(ops::ComparisonOps{}, next);
}

}  // namespace CPU_CAPABILITY
}  // namespace iterlab::cpu
