// The kernels of unary operators, of rounding ones too.
#include "engine/cpu/lanes.h"
#include "engine/cpu/vec_elementary.h"
#include "iterlab/ops/rounding.h"
#include "iterlab/ops/unary.h"

namespace iterlab::cpu {
inline namespace CPU_CAPABILITY {

void append_unary_kernels(const ElementwiseKernels**& next) {
  append_kernels(ops::UnaryOps{}, next);
  append_kernels(ops::RoundingOps{}, next);
}

}  // namespace CPU_CAPABILITY
}  // namespace iterlab::cpu
