// The kernels of activations.
#include "engine/cpu/lanes.h"
#include "iterlab/ops/activation.h"

namespace iterlab::cpu {
inline namespace CPU_CAPABILITY {

void append_activation_kernels(const ElementwiseKernels**& next) {
  append_kernels(ops::ActivationOps{}, next);
}

}  // namespace CPU_CAPABILITY
}  // namespace iterlab::cpu
