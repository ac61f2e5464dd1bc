// The kernels of norms, in a file of their own for the sake of build time.
#include "engine/cpu/reduce_kernels.h"
#include "iterlab/ops/reduce.h"

namespace iterlab::cpu {
inline namespace CPU_CAPABILITY {

void append_norm_kernels(const ReduceKernels**& next) { append_kernels_of(ops::NormOps{}, next); }

}  // namespace CPU_CAPABILITY
}  // namespace iterlab::cpu
