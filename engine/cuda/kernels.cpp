// The table of CUDA kernels.
#include "engine/cuda/kernel_table.h"
#include "iterlab/ops.h"

namespace iterlab::cuda {

// Each is defined in the file that compiles its list: kernels_*.cu.
void append_unary_kernels(const OpKernels**& next);
void append_activation_kernels(const OpKernels**& next);
void append_binary_kernels(const OpKernels**& next);
void append_comparison_kernels(const OpKernels**& next);
void append_ternary_kernels(const OpKernels**& next);
void append_data_kernels(const OpKernels**& next);

const KernelTable& kernel_table() {
  static const OpKernels* elementwise[ops::ElementwiseOps::size];
  static const KernelTable table = [] {
    const OpKernels** next = elementwise;
    append_unary_kernels(next);
    append_activation_kernels(next);
    append_binary_kernels(next);
    append_comparison_kernels(next);
    append_ternary_kernels(next);
    append_data_kernels(next);
    return KernelTable{elementwise};
  }();
  return table;
}

}  // namespace iterlab::cuda
