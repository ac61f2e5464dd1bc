// The C++ signature of an operator's kernels, from its definition.
#pragma once

#include "src/kernels.h"

namespace iterlab {

// The C++ type of a parameter in a signature.
template <ParameterKind kind, bool optional>
constexpr auto parameter_type() {
  if constexpr (kind == ParameterKind::DType) {
    return std::type_identity<at::ScalarType>{};
  } else if constexpr (kind == ParameterKind::MemoryFormat) {
    return std::type_identity<std::optional<at::MemoryFormat>>{};
  } else if constexpr (kind == ParameterKind::Float) {
    return std::type_identity<double>{};
  } else if constexpr (kind == ParameterKind::OptionalFloat) {
    return std::type_identity<std::optional<double>>{};
  } else if constexpr (kind == ParameterKind::Int) {
    return std::type_identity<int64_t>{};
  } else if constexpr (kind == ParameterKind::Bool) {
    return std::type_identity<bool>{};
  } else if constexpr (kind == ParameterKind::Choice) {
    return std::type_identity<
        std::conditional_t<optional, std::optional<c10::string_view>, c10::string_view>>{};
  } else {
    return std::type_identity<const at::Scalar&>{};
  }
}

template <class Op, size_t i>
using ParameterType = typename decltype(parameter_type<Op::parameters[i].kind,
                                                       takes_none(Op::parameters[i])>())::type;

template <bool is_scalar>
using OperandType = std::conditional_t<is_scalar, const at::Scalar&, const at::Tensor&>;

// The signatures of an operator whose inputs in `scalar_inputs` are numbers. Note [Number operands]
template <class Op, uint32_t scalar_inputs>
struct SignatureOf {
  template <size_t... I, size_t... P>
  static auto elementwise(std::index_sequence<I...>, std::index_sequence<P...>)
      -> ElementwiseSignature<TypeList<OperandType<(scalar_inputs >> I & 1u) != 0>...>,
                              ParameterType<Op, P>...>;
  template <size_t... I, size_t... P>
  static auto inplace(std::index_sequence<I...>, std::index_sequence<P...>)
      -> InplaceSignature<TypeList<OperandType<(scalar_inputs >> (I + 1) & 1u) != 0>...>,
                          ParameterType<Op, P>...>;

  using Parameters = std::make_index_sequence<Op::parameters.size()>;
  using Elementwise =
      decltype(elementwise(std::make_index_sequence<Op::num_inputs>{}, Parameters{}));
  using Inplace = decltype(inplace(std::make_index_sequence<Op::num_inputs - 1>{}, Parameters{}));
};

}  // namespace iterlab
