// The kernel that raises for tensors of other layouts.
#include "src/other_layouts.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <string>

namespace iterlab {
namespace {

// What a tensor is, and what to make of it; empty for a dense one.
std::string kind_and_remedy(const at::Tensor& tensor) {
  if (tensor.is_quantized()) return "a quantized tensor: dequantize() gives a dense one";
  if (tensor.is_nested()) return "a nested tensor of layout torch.strided: torch.jagged is taken";
  if (tensor.layout() == at::kMkldnn) return "an mkldnn tensor: to_dense() gives a dense one";
  if (tensor.layout() != at::kStrided) return "a sparse tensor: to_dense() gives a dense one";
  return {};
}

void refuse(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
  const c10::FunctionSchema& schema = op.schema();
  const auto given = torch::jit::last(*stack, schema.arguments().size());
  for (size_t i = 0; i < given.size(); ++i) {
    if (!given[i].isTensor() || !given[i].toTensor().defined()) continue;
    const std::string kind = kind_and_remedy(given[i].toTensor());
    TORCH_CHECK_NOT_IMPLEMENTED(kind.empty(), schema.name(), ": expected dense tensors, got `",
                                schema.arguments()[i].name(), "`, ", kind);
  }
  TORCH_INTERNAL_ASSERT(false, schema.name(), " refuses an argument, and all are dense");
}

}  // namespace

c10::KernelFunction refuse_layout() {
  return c10::KernelFunction::makeFromBoxedFunction<&refuse>();
}

}  // namespace iterlab
