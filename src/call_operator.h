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

// The typed entry of "iterlab::NAME.OVERLOAD". Looked up: callers keep it.
template <class Signature>
auto entry(const std::string& name, const char* overload) {
  return c10::Dispatcher::singleton()
      .findSchemaOrThrow(("iterlab::" + name).c_str(), overload)
      .template typed<Signature>();
}

// The functional variant of the operator that Op defines. Argument types are the schema's:
// at::Tensor, at::Scalar, bool, int64_t, double, std::optional<double>, c10::string_view.
template <class Op, class... Args>
at::Tensor call(const Args&... args) {
  static const auto handle =
      entry<at::Tensor(typename detail::Passed<Args>::type...)>(Op::name, "");
  return handle.call(args...);
}

// Its out variant.
template <class Op, class... Args>
at::Tensor& call_out(at::Tensor& out, const Args&... args) {
  static const auto handle =
      entry<at::Tensor&(typename detail::Passed<Args>::type..., at::Tensor&)>(Op::name, "out");
  return handle.call(args..., out);
}

// Its in-place variant; `args` are those after the written tensor.
template <class Op, class... Args>
at::Tensor& call_inplace(at::Tensor& input, const Args&... args) {
  static const auto handle =
      entry<at::Tensor&(at::Tensor&, typename detail::Passed<Args>::type...)>(
          std::string(Op::name) + "_", "");
  return handle.call(input, args...);
}

}  // namespace iterlab
