// The kernels of reductions, in the order of the operator table.
#include "engine/cpu/reduce_kernels.h"

namespace iterlab::cpu {
inline namespace CPU_CAPABILITY {

void append_reduce_kernels(const ReduceKernels**& next) {
  append_sum_kernels(next);
  append_extreme_kernels(next);
  append_position_kernels(next);
  append_truth_kernels(next);
  append_moment_kernels(next);
  append_norm_kernels(next);
}

}  // namespace CPU_CAPABILITY
}  // namespace iterlab::cpu
