// Defines an overload that is written from others.
#pragma once

#include <torch/library.h>

#include <string>

namespace iterlab {

// Every layer sees the operators that `kernel` calls: autograd, Meta and tracers by
// CompositeImplicitAutograd, vmap by its key for decompositions, which that does not cover.
// `schema`: without a namespace, "prelu(Tensor input, Tensor weight) -> Tensor".
template <class Kernel>
void define_composite(torch::Library& library, const std::string& schema,
                      const std::vector<at::Tag>& tags, Kernel kernel) {
  const std::string name = schema.substr(0, schema.find('('));
  library.def(schema.c_str(), tags);
  library.impl(name.c_str(), c10::DispatchKey::CompositeImplicitAutograd, kernel);
  library.impl(name.c_str(), c10::DispatchKey::FuncTorchBatchedDecomposition, kernel);
}

}  // namespace iterlab
