// Overloads of ATen whose arguments stand in another order than here, or of which some may be None.
#pragma once

#include "engine/op_table.h"
#include "iterlab/ops.h"
#include "src/override/elementwise.h"

namespace iterlab {

// clamp: the operator follows from which bounds are there.
template <class Bound>
struct ClampArguments : Arguments {
  static constexpr auto aten = "aten::clamp";
  static constexpr auto aten_inplace = "aten::clamp_";
  const OpInfo* chosen;
  ClampArguments(const OpInfo& between, const at::Tensor& input, const std::optional<Bound>& min,
                 const std::optional<Bound>& max)
      : chosen(&between) {
    if (!min && !max) throw PlanError(PlanError::Kind::Runtime, between, "expected a bound");
    if (!max) chosen = find_op(ops::ClampMin::name);
    if (!min) chosen = find_op(ops::ClampMax::name);
    add_operand(input);
    if (min) add_operand(*min);
    if (max) add_operand(*max);
  }

  using Limit = const std::optional<Bound>&;
  using Functional = at::Tensor(const at::Tensor&, Limit, Limit);
  using Inplace = at::Tensor&(at::Tensor&, Limit, Limit);
  using Out = at::Tensor&(const at::Tensor&, Limit, Limit, at::Tensor&);
};

struct EluBackwardArguments : Arguments {
  static constexpr auto aten = "aten::elu_backward";
  EluBackwardArguments(const OpInfo&, const at::Tensor& grad_output, const at::Scalar& alpha,
                       const at::Scalar& scale, const at::Scalar& input_scale, bool is_result,
                       const at::Tensor& self_or_result) {
    add_operand(grad_output);
    add_operand(self_or_result);
    add_parameter(alpha);
    add_parameter(scale);
    add_parameter(input_scale);
    add_parameter(is_result);
  }

  using Number = const at::Scalar&;
  using Functional = at::Tensor(const at::Tensor&, Number, Number, Number, bool, const at::Tensor&);
  using Out = at::Tensor&(const at::Tensor&, Number, Number, Number, bool, const at::Tensor&,
                          at::Tensor&);
};

struct PolygammaArguments : Arguments {
  static constexpr auto aten = "aten::polygamma";
  PolygammaArguments(const OpInfo&, int64_t n, const at::Tensor& input) {
    add_operand(input);
    add_parameter(n);
  }

  using Functional = at::Tensor(int64_t, const at::Tensor&);
  using Out = at::Tensor&(int64_t, const at::Tensor&, at::Tensor&);
};

}  // namespace iterlab
