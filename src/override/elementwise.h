// Elementwise operators of iterlab as kernels of ATen's overloads.
#pragma once

#include "src/override/original.h"
#include "src/signature.h"

#include <cstdlib>

namespace iterlab {

// Arguments of a call that gives the operands alone: parameters have their defaults.
template <class... Operands>
struct WithDefaults : Arguments {
  WithDefaults(const OpInfo& op, const Operands&... operands) {
    (add_operand(operands), ...);
    for (int i = 0; i < op.num_parameters; ++i) {
      const Parameter& parameter = op.parameters[static_cast<size_t>(i)];
      if (parameter.kind == ParameterKind::Choice) {
        add_choice(parameter, std::nullopt);
      } else {
        add_parameter(static_cast<int64_t>(std::strtoll(parameter.default_value, nullptr, 10)));
      }
    }
  }
};

// Whether every parameter has a default that WithDefaults can give.
template <class Op>
constexpr bool has_defaults() {
  if (Op::parameters.size() == 0) return false;
  for (const Parameter& parameter : Op::parameters) {
    if (parameter.kind != ParameterKind::Int && !takes_none(parameter)) return false;
    if (parameter.default_value == nullptr) return false;
  }
  return true;
}

// The operator of a call: the overload's, but where its arguments choose among several.
template <class Pack>
const OpInfo& operator_of(const OpInfo& op, const Pack& arguments) {
  if constexpr (requires { arguments.chosen; })
    return *arguments.chosen;
  else
    return op;
}

// float16 beside complex numbers: their common dtype, complex32, is one that few of ATen's kernels
// have.
inline bool half_meets_complex(const Arguments& arguments) {
  bool half = false, complex = false;
  for (int i = 0; i < arguments.num_tensors; ++i) {
    const DType dtype = arguments.tensors[i]->scalar_type();
    half = half || dtype == DType::Half;
    complex = complex || is_complex(dtype);
  }
  return half && complex;
}

// What the kernels of elementwise operators share: mine where it applies, else ATen's.
struct OverrideElementwise : c10::OperatorKernel {
  const OpInfo& op;
  Original original;
  DTypeSet refused;
  OverrideElementwise(const OpInfo& o, Original k, DTypeSet r)
      : op(o), original(std::move(k)), refused(r) {}

  template <class Pack, class... Args>
  bool compute(Output output, at::Tensor& result, const Args&... args) const {
    if (!(is_usual(args, refused) && ...)) return false;
    if (output.tensor != nullptr && !is_usual(*output.tensor, refused)) return false;
    try {
      const Pack arguments(op, args...);
      if (half_meets_complex(arguments)) return false;
      result = try_call_cpu(operator_of(op, arguments), arguments, output);
      return true;
    } catch (const PlanError&) {
      return false;
    } catch (const ZeroDivision& error) {
      TORCH_CHECK(false, error.what());
    }
  }
};

template <class Pack, class Signature>
struct OverrideFunctional;

template <class Pack, class... Args>
struct OverrideFunctional<Pack, at::Tensor(Args...)> : OverrideElementwise {
  using OverrideElementwise::OverrideElementwise;
  at::Tensor operator()(c10::DispatchKeySet keys, Args... args) {
    at::Tensor result;
    if (compute<Pack>({}, result, args...)) return result;
    return original.call<at::Tensor, Args...>(keys, args...);
  }
};

template <class Pack, class Signature>
struct OverrideInplace;

template <class Pack, class... Args>
struct OverrideInplace<Pack, at::Tensor&(at::Tensor&, Args...)> : OverrideElementwise {
  using OverrideElementwise::OverrideElementwise;
  at::Tensor& operator()(c10::DispatchKeySet keys, at::Tensor& input, Args... args) {
    at::Tensor result;
    if (!compute<Pack>({OutputKind::Inplace, &input}, result, input, args...))
      original.call<at::Tensor, at::Tensor, Args...>(keys, input, args...);
    return input;
  }
};

template <class Pack, class Functional>
struct OverrideOut;

template <class Pack, class... Args>
struct OverrideOut<Pack, at::Tensor(Args...)> : OverrideElementwise {
  using OverrideElementwise::OverrideElementwise;
  at::Tensor& operator()(c10::DispatchKeySet keys, Args... args, at::Tensor& out) {
    at::Tensor result;
    if (!compute<Pack>({OutputKind::Given, &out, /*exact=*/true}, result, args...))
      original.call<at::Tensor, Args..., at::Tensor>(keys, args..., out);
    return out;
  }
};

// The signatures of an operator whose inputs in `scalar_inputs` are numbers, without its
// parameters.
template <class Op, uint32_t scalar_inputs>
struct OperandSignatureOf {
  template <size_t... I>
  static auto functional(std::index_sequence<I...>) -> std::pair<
      WithDefaults<std::remove_cvref_t<OperandType<(scalar_inputs >> I & 1u) != 0>>...>,
      ElementwiseSignature<TypeList<OperandType<(scalar_inputs >> I & 1u) != 0>...>>>;
  template <size_t... I>
  static auto inplace(std::index_sequence<I...>)
      -> InplaceSignature<TypeList<OperandType<(scalar_inputs >> (I + 1) & 1u) != 0>...>>;
  using Types = decltype(functional(std::make_index_sequence<Op::num_inputs>{}));
  using Pack = typename Types::first_type;
  using Elementwise = typename Types::second_type;
  using Inplace = decltype(inplace(std::make_index_sequence<Op::num_inputs - 1>{}));
};

}  // namespace iterlab
