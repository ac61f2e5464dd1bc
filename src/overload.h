// One overload of an operator: its schema, and kernels that hold their operator.
#pragma once

#include "src/transforms.h"

#include <torch/library.h>

#include <memory>
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
    static std::vector<c10::RegistrationHandleRAII> handles;
    handles.push_back(c10::Dispatcher::singleton().registerImpl(
        name_, key,
        c10::KernelFunction::makeFromUnboxedFunctor<false, Kernel>(
            std::make_unique<Kernel>(op_, std::move(argument))),
        c10::impl::CppSignature::make<Signature>(), nullptr, "registered by iterlab"));
  }

  const c10::OperatorName& name() const { return name_; }

 private:
  const OpInfo& op_;
  c10::OperatorName name_;
};

}  // namespace iterlab
