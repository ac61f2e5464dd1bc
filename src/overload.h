// One overload of an operator: its schema, and kernels that hold their operator.
#pragma once

#include "src/other_layouts.h"
#include "src/transforms.h"

#include <torch/library.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace iterlab {

// Note [Registration by signature]
// m.impl takes functions, which would be a template instantiation for each operator. Kernels here
// are objects that hold their operator, so they are registered through the dispatcher itself; the
// handles live as long as the process.
class Overload {
 public:
  Overload(torch::Library& library, const OpInfo& op, Variant variant, c10::OperatorName name,
           const std::string& schema, const std::vector<at::Tag>& tags)
      : op_(op), name_(std::move(name)) {
    library.def(schema.c_str(), tags);
    register_transforms(op, variant, name_);
  }

  template <class Kernel, class Signature, class Argument>
  void implement(c10::DispatchKey key, Argument argument) const {
    add(key,
        c10::KernelFunction::makeFromUnboxedFunctor<false, Kernel>(
            std::make_unique<Kernel>(op_, std::move(argument))),
        c10::impl::CppSignature::make<Signature>());
  }

  // Not for every backend that has no kernel (CompositeExplicitAutograd): some have fallbacks. And
  // not for composites, which other layouts go through.
  void refuse_other_layouts() const {
    using enum c10::DispatchKey;
    for (const c10::DispatchKey key :
         {SparseCPU, SparseCUDA, SparseCsrCPU, SparseCsrCUDA, QuantizedCPU, QuantizedCUDA,
          MkldnnCPU, NestedTensorCPU, NestedTensorCUDA}) {
      add(key, refuse_layout(), std::nullopt);
    }
  }

  const c10::OperatorName& name() const { return name_; }

 private:
  void add(c10::DispatchKey key, c10::KernelFunction kernel,
           std::optional<c10::impl::CppSignature> signature) const {
    static std::vector<c10::RegistrationHandleRAII> handles;
    handles.push_back(c10::Dispatcher::singleton().registerImpl(
        name_, key, std::move(kernel), std::move(signature), nullptr, "registered by iterlab"));
  }

  const OpInfo& op_;
  c10::OperatorName name_;
};

}  // namespace iterlab
