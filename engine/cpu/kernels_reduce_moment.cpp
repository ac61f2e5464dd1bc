// The kernels of reductions to moments, in a file of their own for the sake of build time.
#include "engine/cpu/reduce_kernels.h"
#include "iterlab/ops/reduce.h"

namespace iterlab::cpu {
inline namespace CPU_CAPABILITY {

void append_moment_kernels(const ReduceKernels**& next) {
  append_kernels_of(ops::MomentOps{}, next);
}

}  // namespace CPU_CAPABILITY
}  // namespace iterlab::cpu
