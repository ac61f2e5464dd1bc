// The kernels of activations and their backward operators.
#include "engine/cpu/lanes.h"
#include "engine/cpu/vml.h"
#include "iterlab/ops/activation.h"
#include "iterlab/ops/activation_backward.h"

namespace iterlab::cpu {
inline namespace CPU_CAPABILITY {

void append_activation_kernels(const ElementwiseKernels**& next) {
  append_kernels(ops::ActivationOps{}, next);
  append_kernels(ops::ActivationBackwardOps{}, next);
}

}  // namespace CPU_CAPABILITY
}  // namespace iterlab::cpu
