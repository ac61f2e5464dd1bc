// The kernel table of one capability: what its shared library exports.
#include "engine/cpu/lanes.h"
#include "iterlab/ops.h"

#define ITERLAB_STRING_(x) #x
#define ITERLAB_STRING(x) ITERLAB_STRING_(x)

namespace iterlab::cpu {

inline namespace CPU_CAPABILITY {
// Each in a file of its own, for the sake of build time.
void append_unary_kernels(const ElementwiseKernels**& next);
void append_elementary_kernels(const ElementwiseKernels**& next);
void append_special_kernels(const ElementwiseKernels**& next);
void append_activation_kernels(const ElementwiseKernels**& next);
void append_binary_kernels(const ElementwiseKernels**& next);
void append_binary_math_kernels(const ElementwiseKernels**& next);
void append_integer_kernels(const ElementwiseKernels**& next);
void append_comparison_kernels(const ElementwiseKernels**& next);
void append_ternary_kernels(const ElementwiseKernels**& next);
void append_reduce_kernels(const ReduceKernels**& next);
}  // namespace CPU_CAPABILITY

namespace {

KernelTable make_table() {
  static const ElementwiseKernels* elementwise[ops::ElementwiseOps::size];
  static const ReduceKernels* reduce[ops::ReduceOps::size];
  const ElementwiseKernels** next = elementwise;
  append_unary_kernels(next);
  append_elementary_kernels(next);
  append_special_kernels(next);
  append_activation_kernels(next);
  append_binary_kernels(next);
  append_binary_math_kernels(next);
  append_integer_kernels(next);
  append_comparison_kernels(next);
  append_ternary_kernels(next);
  append_kernels(ops::DataOps{}, next);
  const ReduceKernels** next_reduce = reduce;
  append_reduce_kernels(next_reduce);
  return {ITERLAB_STRING(CPU_CAPABILITY), stage_kernels(), elementwise, reduce};
}

}  // namespace
}  // namespace iterlab::cpu

extern "C" __attribute__((visibility("default"))) const iterlab::cpu::KernelTable*
iterlab_cpu_kernel_table() {
  static const iterlab::cpu::KernelTable table = iterlab::cpu::make_table();
  return &table;
}
