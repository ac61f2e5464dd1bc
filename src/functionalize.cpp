// Functionalization: in-place and out= calls become the functional overload and an update of the
// written tensor, for torch.func.functionalize and, through it, torch.compile and torch.export.
#include "src/transforms.h"

#include <ATen/FunctionalTensorWrapper.h>
#include <ATen/core/LegacyTypeDispatch.h>

namespace iterlab {
namespace {

namespace functional = at::functionalization::impl;
using torch::jit::Stack;

bool is_written(const c10::Argument& argument) {
  return argument.alias_info() != nullptr && argument.alias_info()->isWrite();
}

// The overload of the same operator that takes the same arguments and writes to none of them.
c10::OperatorHandle functional_overload(const c10::OperatorHandle& op, Variant variant) {
  c10::OperatorName name = op.operator_name();
  if (variant == Variant::Inplace) {
    name.name.pop_back();  // the underscore
  } else {
    const size_t suffix = name.overload_name.rfind("out");
    name.overload_name.resize(suffix == 0 ? 0 : suffix - 1);  // "out", "Scalar_other_out"
  }
  return c10::Dispatcher::singleton().findSchemaOrThrow(name.name.c_str(),
                                                        name.overload_name.c_str());
}

// Replaces functional tensors on the stack by what they hold; returns whether there were any.
bool unwrap(Stack& arguments) {
  bool any = false;
  for (c10::IValue& argument : arguments) {
    if (!argument.isTensor() || !functional::isFunctionalTensor(argument.toTensor())) continue;
    any = true;
    functional::sync(argument.toTensor());
    argument = functional::from_functional_tensor(argument.toTensor());
  }
  return any;
}

struct FunctionalizeRule : c10::OperatorKernel {
  const OpInfo& info;
  Variant variant;
  FunctionalizeRule(const OpInfo& op, Variant v) : info(op), variant(v) {}

  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet, Stack* stack) const {
    const std::vector<c10::Argument>& parameters = op.schema().arguments();
    const Stack originals = torch::jit::pop(*stack, parameters.size());
    Stack inner, written;
    bool writes_functional = true;
    for (size_t i = 0; i < parameters.size(); ++i) {
      if (!is_written(parameters[i])) continue;
      written.push_back(originals[i]);
      writes_functional =
          writes_functional && functional::isFunctionalTensor(originals[i].toTensor());
    }
    if (!writes_functional) return write_directly(op, originals, stack);
    for (size_t i = 0; i < parameters.size(); ++i) {
      if (variant == Variant::Out && is_written(parameters[i])) continue;
      const bool takes_dtype = info.reduction.takes_dtype_of_out() &&
                               parameters[i].name() == "dtype" && originals[i].isNone();
      inner.push_back(takes_dtype ? written[0].toTensor().scalar_type() : originals[i]);
    }
    unwrap(inner);
    {
      at::AutoDispatchSkipFunctionalize guard;
      functional_overload(op, variant).callBoxed(inner);
    }
    for (size_t i = 0; i < written.size(); ++i) {
      update(op, written[i].toTensor(), inner[i].toTensor());
      stack->push_back(written[i]);
    }
  }

 private:
  // The written tensor takes the value, cast to its dtype; out= takes the shape too.
  void update(const c10::OperatorHandle& op, const at::Tensor& written,
              const at::Tensor& value) const {
    TORCH_CHECK(variant == Variant::Out || written.sym_sizes().equals(value.sym_sizes()),
                op.operator_name().name, ": expected an in-place operand of the broadcast shape ",
                value.sym_sizes(), ", got shape ", written.sym_sizes());
    TORCH_CHECK(c10::canCast(value.scalar_type(), written.scalar_type()), op.operator_name().name,
                ": expected an output that can hold a result of dtype ", value.scalar_type(),
                ", got one of dtype ", written.scalar_type());
    functional::propagate_xla_data(written, value);
    functional::replace_(written, value);
    functional::commit_update(written);
    functional::sync(written);
  }

  static void write_directly(const c10::OperatorHandle& op, Stack arguments, Stack* stack) {
    TORCH_CHECK(!unwrap(arguments), op.operator_name().name,
                ": expected to write to a tensor that is functionalized, as the operands are: pass "
                "it as an input of functionalize");
    at::AutoDispatchSkipFunctionalize guard;
    op.callBoxed(arguments);
    stack->insert(stack->end(), arguments.begin(), arguments.end());
  }
};

}  // namespace

void register_functionalization(const OpInfo& op, Variant variant, const c10::OperatorName& name) {
  if (variant == Variant::Functional) return;  // torch's fallback does
  register_rule(name, c10::DispatchKey::Functionalize,
                std::make_unique<FunctionalizeRule>(op, variant));
}

}  // namespace iterlab
