// The kernels of reductions to counts, truth values and bits, in a file of their own for the sake
// of build time.
#include "engine/cpu/reduce_kernels.h"
#include "iterlab/ops/reduce.h"

namespace iterlab::cpu {
inline namespace CPU_CAPABILITY {

void append_truth_kernels(const ReduceKernels**& next) { append_kernels_of(ops::TruthOps{}, next); }

}  // namespace CPU_CAPABILITY
}  // namespace iterlab::cpu
