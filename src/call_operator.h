// Calls of iterlab's own operators through the dispatcher, for derivative formulas and composites.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <string>

namespace iterlab {
namespace detail {

// How a signature takes an argument of type T.
template <class T>
struct Passed {
  using type = T;
};
template <>
struct Passed<at::Tensor> {
  using type = const at::Tensor&;
};
template <>
struct Passed<at::Scalar> {
  using type = const at::Scalar&;
};

}  // namespace detail

// The functional variant of the operator that Op defines. Argument types are the schema's:
// at::Tensor, at::Scalar, bool, int64_t, double, std::optional<double>, c10::string_view.
template <class Op, class... Args>
at::Tensor call(const Args&... args) {
  static const auto handle =
      c10::Dispatcher::singleton()
          .findSchemaOrThrow(("iterlab::" + std::string(Op::name)).c_str(), "")
          .typed<at::Tensor(typename detail::Passed<Args>::type...)>();
  return handle.call(args...);
}

}  // namespace iterlab
