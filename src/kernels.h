// The dispatcher's typed kernels, one class template for each layer and variant. They are templates
// over the *signature* (how many tensors, which parameters), not over the operator: an operator is
// data in them, so that 150 operators instantiate a dozen signatures.
#pragma once

#include "src/autograd.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/boxing/OperatorKernel.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/scalar_tensor.h>
#include <torch/csrc/autograd/VariableTypeUtils.h>

namespace iterlab {

// The C++ types of a signature's operands, each `const at::Tensor&` or `const at::Scalar&`.
template <class... Types>
struct TypeList {};

// The arguments of a call with these operands.
template <class... Operands>
struct Packed : Arguments {
  template <class... Parameters>
  explicit Packed(const OpInfo& op, const Operands&... operands, const Parameters&... parameters) {
    (add_operand(operands), ...);
    size_t position = 0;
    (add(op.parameters[position++], parameters), ...);
  }

 private:
  template <class Value>
  void add(const Parameter& parameter, const Value& value) {
    if constexpr (std::is_same_v<Value, c10::string_view> ||
                  std::is_same_v<Value, std::optional<c10::string_view>>) {
      add_choice(parameter, value);
    } else {
      add_parameter(value);
    }
  }
};

using ElementwiseCall = at::Tensor (*)(const OpInfo& op, const Arguments& arguments, Output output);

// The typed entry of an overload, looked up when its kernel is made.
template <class Signature>
c10::TypedOperatorHandle<Signature> typed_handle(const c10::OperatorName& name) {
  return c10::Dispatcher::singleton()
      .findSchemaOrThrow(name.name.c_str(), name.overload_name.c_str())
      .typed<Signature>();
}

// Whether autograd has anything to do with an operand, in either mode.
inline bool is_tracked(const at::Tensor& tensor) {
  return (tensor.requires_grad() && c10::GradMode::is_enabled()) ||
         tensor._fw_grad(/*level=*/0).defined();
}
inline bool is_tracked(const at::Scalar&) { return false; }

template <class>
using AsTensor = const at::Tensor&;

// Elementwise operators with operands A... and parameters P...
template <class Operands, class... P>
struct ElementwiseSignature;

template <class... A, class... P>
struct ElementwiseSignature<TypeList<A...>, P...> {
  using Pack = Packed<std::remove_cvref_t<A>...>;
  using Functional = at::Tensor(A..., P...);
  using Out = at::Tensor&(A..., P..., at::Tensor&);

  // Backends: CPU and Meta.
  struct Compute : c10::OperatorKernel {
    const OpInfo& op;
    ElementwiseCall call;
    Compute(const OpInfo& o, ElementwiseCall c) : op(o), call(c) {}
    at::Tensor operator()(A... operands, P... parameters) {
      return call(op, Pack(op, operands..., parameters...), {});
    }
  };

  // All operands are numbers: as 0-d tensors of the dtype that they promote to, into the overload
  // for tensors. A composite, so that modes and tracers see that call.
  struct ComputeNumbers : c10::OperatorKernel {
    const OpInfo& op;
    c10::TypedOperatorHandle<at::Tensor(AsTensor<A>..., P...)> tensors;
    ComputeNumbers(const OpInfo& o, const c10::OperatorName& name)
        : op(o), tensors(typed_handle<at::Tensor(AsTensor<A>..., P...)>(name)) {}
    at::Tensor operator()(A... operands, P... parameters) {
      const at::ScalarType dtype = number_dtype(op, Pack(op, operands..., parameters...));
      return tensors.call(at::scalar_tensor(operands, dtype)..., parameters...);
    }
  };

  struct ComputeOut : c10::OperatorKernel {
    const OpInfo& op;
    ElementwiseCall call;
    ComputeOut(const OpInfo& o, ElementwiseCall c) : op(o), call(c) {}
    at::Tensor& operator()(A... operands, P... parameters, at::Tensor& out) {
      call(op, Pack(op, operands..., parameters...), {OutputKind::Given, &out});
      return out;
    }
  };

  struct Autograd : c10::OperatorKernel {
    const OpInfo& op;
    const Derivative* derivative;
    c10::TypedOperatorHandle<Functional> handle;
    Autograd(const OpInfo& o, const c10::OperatorName& name)
        : op(o), derivative(find_derivative(o.name)), handle(typed_handle<Functional>(name)) {}
    at::Tensor operator()(c10::DispatchKeySet keys, A... operands, P... parameters) {
      const auto call_below = [&] {
        at::AutoDispatchBelowADInplaceOrView guard;
        return handle.redispatch(keys & c10::after_autograd_keyset, operands..., parameters...);
      };
      if (!(is_tracked(operands) || ...)) return call_below();
      const Pack arguments(op, operands..., parameters...);
      ElementwiseGrad grad(op, derivative, arguments, /*in_place=*/false);
      at::Tensor result = call_below();
      grad.finish(result);
      return result;
    }
  };

  struct AutogradOut : c10::OperatorKernel {
    const OpInfo& op;
    c10::TypedOperatorHandle<Out> handle;
    AutogradOut(const OpInfo& o, const c10::OperatorName& name)
        : op(o), handle(typed_handle<Out>(name)) {}
    at::Tensor& operator()(c10::DispatchKeySet keys, A... operands, P... parameters,
                           at::Tensor& out) {
      refuse_out_with_grad(op, Pack(op, operands..., parameters...), out);
      at::AutoDispatchBelowAutograd guard;
      return handle.redispatch(keys & c10::after_autograd_keyset, operands..., parameters..., out);
    }
  };

  // Below autograd: a write bumps the version counter, so that autograd notices saved tensors that
  // changed.
  struct BumpVersionOut : c10::OperatorKernel {
    c10::TypedOperatorHandle<Out> handle;
    BumpVersionOut(const OpInfo&, const c10::OperatorName& name)
        : handle(typed_handle<Out>(name)) {}
    at::Tensor& operator()(c10::DispatchKeySet keys, A... operands, P... parameters,
                           at::Tensor& out) {
      {
        at::AutoDispatchBelowADInplaceOrView guard;
        handle.redispatch(keys & c10::after_ADInplaceOrView_keyset, operands..., parameters...,
                          out);
      }
      torch::autograd::increment_version(out);
      return out;
    }
  };
};

// In-place operators: the first operand is a tensor and is written; operands A... follow it.
template <class Operands, class... P>
struct InplaceSignature;

template <class... A, class... P>
struct InplaceSignature<TypeList<A...>, P...> {
  using Pack = Packed<at::Tensor, std::remove_cvref_t<A>...>;
  using Inplace = at::Tensor&(at::Tensor&, A..., P...);

  struct Compute : c10::OperatorKernel {
    const OpInfo& op;
    ElementwiseCall call;
    Compute(const OpInfo& o, ElementwiseCall c) : op(o), call(c) {}
    at::Tensor& operator()(at::Tensor& input, A... others, P... parameters) {
      call(op, Pack(op, input, others..., parameters...), {OutputKind::Inplace, &input});
      return input;
    }
  };

  struct Autograd : c10::OperatorKernel {
    const OpInfo& op;
    const Derivative* derivative;
    c10::TypedOperatorHandle<Inplace> handle;
    Autograd(const OpInfo& o, const c10::OperatorName& name)
        : op(o), derivative(find_derivative(o.name)), handle(typed_handle<Inplace>(name)) {}
    at::Tensor& operator()(c10::DispatchKeySet keys, at::Tensor& input, A... others,
                           P... parameters) {
      const auto call_below = [&] {
        at::AutoDispatchBelowAutograd guard;
        handle.redispatch(keys & c10::after_autograd_keyset, input, others..., parameters...);
      };
      if (!(is_tracked(input) || ... || is_tracked(others))) {
        call_below();
        return input;
      }
      const Pack arguments(op, input, others..., parameters...);
      ElementwiseGrad grad(op, derivative, arguments, /*in_place=*/true);
      call_below();
      grad.finish(input);
      return input;
    }
  };

  struct BumpVersion : c10::OperatorKernel {
    c10::TypedOperatorHandle<Inplace> handle;
    BumpVersion(const OpInfo&, const c10::OperatorName& name)
        : handle(typed_handle<Inplace>(name)) {}
    at::Tensor& operator()(c10::DispatchKeySet keys, at::Tensor& input, A... others,
                           P... parameters) {
      {
        at::AutoDispatchBelowADInplaceOrView guard;
        handle.redispatch(keys & c10::after_ADInplaceOrView_keyset, input, others...,
                          parameters...);
      }
      torch::autograd::increment_version(input);
      return input;
    }
  };
};

}  // namespace iterlab
