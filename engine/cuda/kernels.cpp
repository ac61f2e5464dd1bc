// The table of CUDA kernels.
#include "engine/cuda/kernel_table.h"
#include "iterlab/ops.h"

namespace iterlab::cuda {

// Each is defined in the file that compiles its list: kernels_*.cu.
void append_unary_kernels(const OpKernels**& next);
void append_rounding_kernels(const OpKernels**& next);
void append_elementary_kernels(const OpKernels**& next);
void append_special_kernels(const OpKernels**& next);
void append_activation_kernels(const OpKernels**& next);
void append_activation_backward_kernels(const OpKernels**& next);
void append_binary_kernels(const OpKernels**& next);
void append_binary_math_kernels(const OpKernels**& next);
void append_integer_kernels(const OpKernels**& next);
void append_comparison_kernels(const OpKernels**& next);
void append_ternary_kernels(const OpKernels**& next);
void append_data_kernels(const OpKernels**& next);
void append_sum_kernels(const ReduceKernels**& next);
void append_extreme_kernels(const ReduceKernels**& next);
void append_position_kernels(const ReduceKernels**& next);
void append_truth_kernels(const ReduceKernels**& next);
void append_moment_kernels(const ReduceKernels**& next);
void append_norm_kernels(const ReduceKernels**& next);

const KernelTable& kernel_table() {
  static const OpKernels* elementwise[ops::ElementwiseOps::size];
  static const ReduceKernels* reduce[ops::ReduceOps::size];
  static const KernelTable table = [] {
    const OpKernels** next = elementwise;
    append_unary_kernels(next);
    append_rounding_kernels(next);
    append_elementary_kernels(next);
    append_special_kernels(next);
    append_activation_kernels(next);
    append_activation_backward_kernels(next);
    append_binary_kernels(next);
    append_binary_math_kernels(next);
    append_integer_kernels(next);
    append_comparison_kernels(next);
    append_ternary_kernels(next);
    append_data_kernels(next);
    const ReduceKernels** next_reduce = reduce;
    append_sum_kernels(next_reduce);
    append_extreme_kernels(next_reduce);
    append_position_kernels(next_reduce);
    append_truth_kernels(next_reduce);
    append_moment_kernels(next_reduce);
    append_norm_kernels(next_reduce);
    return KernelTable{elementwise, reduce};
  }();
  return table;
}

}  // namespace iterlab::cuda
