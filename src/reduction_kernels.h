// The dispatcher's typed kernels of reductions: templates over the number of results and the types
// of the arguments after the input, in the schema's order. An operator is data in them.
#pragma once

#include "src/kernels.h"
#include "src/reduction_autograd.h"

#include <tuple>

namespace iterlab {

using ReductionCall = ReduceResults (*)(const OpInfo& op, const at::Tensor& input,
                                        const ReduceArguments& arguments,
                                        const GivenResults& given);

// How results are returned: one tensor or a tuple, by value or as the references that were given.
template <int num_results>
struct ResultTypes {
  using Values = std::tuple<at::Tensor, at::Tensor>;
  using References = std::tuple<at::Tensor&, at::Tensor&>;
  static Values values(ReduceResults&& results) {
    return {std::move(results[0]), std::move(results[1])};
  }
  static ReduceResults list(const Values& values) {
    return {std::get<0>(values), std::get<1>(values)};
  }
  static References references(at::Tensor& first, at::Tensor& second) { return {first, second}; }
};
template <>
struct ResultTypes<1> {
  using Values = at::Tensor;
  using References = at::Tensor&;
  static Values values(ReduceResults&& results) { return std::move(results[0]); }
  static ReduceResults list(const at::Tensor& value) { return {value, {}}; }
  static References references(at::Tensor& first) { return first; }
};

// Outputs...: `at::Tensor&` for each result.
template <class Outputs, class... P>
struct ReductionSignature;

template <class... O, class... P>
struct ReductionSignature<TypeList<O...>, P...> {
  using Types = ResultTypes<sizeof...(O)>;
  using Functional = typename Types::Values(const at::Tensor&, P...);
  using Out = typename Types::References(const at::Tensor&, P..., O...);

  static ReduceArguments pack(const P&... parameters) {
    ReduceArguments arguments;
    (arguments.add(parameters), ...);
    return arguments;
  }

  struct Compute : c10::OperatorKernel {
    const OpInfo& op;
    ReductionCall call;
    Compute(const OpInfo& o, ReductionCall c) : op(o), call(c) {}
    typename Types::Values operator()(const at::Tensor& input, P... parameters) {
      return Types::values(call(op, input, pack(parameters...), {}));
    }
  };

  struct ComputeOut : c10::OperatorKernel {
    const OpInfo& op;
    ReductionCall call;
    ComputeOut(const OpInfo& o, ReductionCall c) : op(o), call(c) {}
    typename Types::References operator()(const at::Tensor& input, P... parameters, O... outputs) {
      call(op, input, pack(parameters...), {&outputs...});
      return Types::references(outputs...);
    }
  };

  struct Autograd : c10::OperatorKernel {
    const OpInfo& op;
    const ReductionDerivative* derivative;
    c10::TypedOperatorHandle<Functional> handle;
    Autograd(const OpInfo& o, const c10::OperatorName& name)
        : op(o),
          derivative(find_reduction_derivative(o.name, o.reduction.overload)),
          handle(typed_handle<Functional>(name)) {}
    typename Types::Values operator()(c10::DispatchKeySet keys, const at::Tensor& input,
                                      P... parameters) {
      const auto call_below = [&] {
        at::AutoDispatchBelowADInplaceOrView guard;
        return handle.redispatch(keys & c10::after_autograd_keyset, input, parameters...);
      };
      if (!is_tracked(input)) return call_below();
      ReductionGrad grad(op, derivative, input, pack(parameters...));
      typename Types::Values results = call_below();
      grad.finish(Types::list(results), [&](const at::Tensor& tangent) {
        return Types::list(handle.call(tangent, parameters...));
      });
      return results;
    }
  };

  struct AutogradOut : c10::OperatorKernel {
    const OpInfo& op;
    c10::TypedOperatorHandle<Out> handle;
    AutogradOut(const OpInfo& o, const c10::OperatorName& name)
        : op(o), handle(typed_handle<Out>(name)) {}
    typename Types::References operator()(c10::DispatchKeySet keys, const at::Tensor& input,
                                          P... parameters, O... outputs) {
      Arguments tensors;
      tensors.add_operand(input);
      (refuse_out_with_grad(op, tensors, outputs), ...);
      at::AutoDispatchBelowAutograd guard;
      return handle.redispatch(keys & c10::after_autograd_keyset, input, parameters..., outputs...);
    }
  };

  // Below autograd: a write bumps the version counter, so that autograd notices saved tensors that
  // changed.
  struct BumpVersionOut : c10::OperatorKernel {
    c10::TypedOperatorHandle<Out> handle;
    BumpVersionOut(const OpInfo&, const c10::OperatorName& name)
        : handle(typed_handle<Out>(name)) {}
    typename Types::References operator()(c10::DispatchKeySet keys, const at::Tensor& input,
                                          P... parameters, O... outputs) {
      {
        at::AutoDispatchBelowADInplaceOrView guard;
        handle.redispatch(keys & c10::after_ADInplaceOrView_keyset, input, parameters...,
                          outputs...);
      }
      (torch::autograd::increment_version(outputs), ...);
      return Types::references(outputs...);
    }
  };
};

}  // namespace iterlab
