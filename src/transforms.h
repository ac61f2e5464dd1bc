// Rules by which an overload takes part in torch's transforms: vmap, functionalization, autocast.
// Each is boxed and holds its operator as data, so that one rule serves every signature.
#pragma once

#include "iterlab/op.h"
#include "src/schema.h"

#include <ATen/core/boxing/OperatorKernel.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace iterlab {

// Registers the rules of one overload, which must be defined already.
void register_transforms(const OpInfo& op, Variant variant, const c10::OperatorName& name);

void register_vmap(const OpInfo& op, Variant variant, const c10::OperatorName& name);
void register_functionalization(const OpInfo& op, Variant variant, const c10::OperatorName& name);
void register_autocast(const OpInfo& op, Variant variant, const c10::OperatorName& name);

// Registers a kernel object with
//   void operator()(const c10::OperatorHandle&, c10::DispatchKeySet, torch::jit::Stack*)
// for the life of the process.
template <class Rule>
void register_rule(const c10::OperatorName& name, c10::DispatchKey key,
                   std::unique_ptr<Rule> rule) {
  static std::vector<c10::RegistrationHandleRAII> handles;
  handles.push_back(c10::Dispatcher::singleton().registerImpl(
      name, key, c10::KernelFunction::makeFromBoxedFunctor(std::move(rule)), std::nullopt, nullptr,
      "registered by iterlab"));
}

}  // namespace iterlab
