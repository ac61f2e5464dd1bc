// Autocast: operands cast as the operator's policy says, for operators that have one; the others
// are not seen by autocast, as in ATen.
#include "src/transforms.h"

#include <ATen/autocast_mode.h>

namespace iterlab {
namespace {

namespace autocast = at::autocast;
using torch::jit::Stack;

// The dtype that operands are cast to.
at::ScalarType operand_dtype(Autocast policy, at::ArrayRef<c10::IValue> arguments,
                             at::DeviceType device) {
  if (policy == Autocast::Float32) return at::kFloat;
  at::ScalarType dtype = autocast::get_autocast_dtype(device);
  if (policy == Autocast::LowerPrecision) return dtype;
  for (const c10::IValue& argument : arguments) {
    if (argument.isTensor()) dtype = autocast::prioritize(dtype, argument.toTensor(), device);
  }
  return dtype;
}

struct AutocastRule : c10::OperatorKernel {
  Autocast policy;
  at::DeviceType device;
  AutocastRule(Autocast p, at::DeviceType d) : policy(p), device(d) {}

  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet, Stack* stack) const {
    c10::impl::ExcludeDispatchKeyGuard guard(
        autocast::get_autocast_dispatch_key_from_device_type(device));
    const size_t count = op.schema().arguments().size(), first = stack->size() - count;
    if (policy == Autocast::Float32Result) {
      set_dtype(op, first, *stack);
    } else {
      const at::ScalarType dtype = operand_dtype(policy, torch::jit::last(*stack, count), device);
      for (size_t i = first; i < stack->size(); ++i) {
        c10::IValue& argument = (*stack)[i];
        if (argument.isTensor())
          argument = autocast::cached_cast(dtype, argument.toTensor(), device);
      }
    }
    op.callBoxed(stack);
  }

 private:
  // dtype=float32, where the caller asks for none and the input is one that autocast is for.
  void set_dtype(const c10::OperatorHandle& op, size_t first, Stack& stack) const {
    const std::optional<int> position = op.schema().argumentIndexWithName("dtype");
    if (!position || !autocast::is_eligible(stack[first].toTensor(), device)) return;
    c10::IValue& dtype = stack[first + static_cast<size_t>(*position)];
    if (dtype.isNone()) dtype = at::kFloat;
  }
};

}  // namespace

void register_autocast(const OpInfo& op, Variant variant, const c10::OperatorName& name) {
  if (variant != Variant::Functional) return;
  const auto add = [&](Autocast policy, at::DeviceType device) {
    if (policy == Autocast::None) return;
    register_rule(name, autocast::get_autocast_dispatch_key_from_device_type(device),
                  std::make_unique<AutocastRule>(policy, device));
  };
  add(op.autocast.cuda, at::kCUDA);
  add(op.autocast.cpu, at::kCPU);
}

}  // namespace iterlab
