// Reverse and forward mode of reductions, in the shape of torch's generated VariableType code.
#include "src/reduction_autograd.h"

#include <ATen/ops/ones_like.h>
#include <ATen/ops/real.h>
#include <torch/csrc/autograd/FunctionsManual.h>
#include <torch/csrc/autograd/VariableTypeUtils.h>
#include <torch/csrc/autograd/saved_variable.h>

namespace iterlab {

namespace ag = torch::autograd;
using at::Tensor;

namespace {

bool is_differentiable(const Tensor& tensor) {
  return tensor.defined() && (tensor.is_floating_point() || tensor.is_complex());
}

// A value of another dtype, real where `dtype` is.
Tensor fit(Tensor value, at::ScalarType dtype) {
  if (value.is_complex() && !c10::isComplexType(dtype)) value = at::real(value);
  return value.scalar_type() == dtype ? value : value.to(dtype);
}

}  // namespace

struct ReductionGrad::Node : ag::Node {
  const OpInfo* op = nullptr;
  const ReductionDerivative* derivative = nullptr;
  at::ScalarType dtype = at::ScalarType::Undefined;
  ag::SavedVariable input;
  std::array<ag::SavedVariable, kMaxResults> results;
  SavedReduction facts;  // without tensors

  std::string name() const override { return "Iterlab" + std::string(op->name) + "Backward"; }

  void release_variables() override {
    input.reset_data();
    for (ag::SavedVariable& result : results) result.reset_data();
  }

  ag::variable_list apply(ag::variable_list&& grads) override {
    ag::variable_list out(1);
    if (!task_should_compute_output(0)) return out;
    SavedReduction saved = facts;
    if (derivative->saves_input) saved.input = input.unpack();
    for (size_t i = 0; i < kMaxResults; ++i) {
      if ((derivative->saves_results >> i & 1u) != 0)
        saved.results[i] = results[i].unpack(getptr());
    }
    for (size_t i = 0; i < grads.size(); ++i) {
      if (!grads[i].defined() || derivative->results[i] == nullptr) continue;
      const Tensor part = fit(derivative->results[i](grads[i], saved), dtype);
      out[0] = out[0].defined() ? out[0] + part : part;
    }
    return out;
  }
};

ReductionGrad::ReductionGrad(const OpInfo& op, const ReductionDerivative* derivative,
                             const Tensor& input, const ReduceArguments& arguments)
    : op_(op), derivative_(derivative), input_(input) {
  if (derivative == nullptr) return;
  tangent_ = ag::generated::details::toNonOptFwGrad(input);
  const bool requires_grad = ag::compute_requires_grad(input);
  if (!requires_grad && !tangent_.defined()) return;
  node_ = make_node<Node>();
  if (requires_grad) node_->set_next_edges(ag::collect_next_edges(input));
  node_->op = &op;
  node_->derivative = derivative;
  node_->dtype = input.scalar_type();
  SavedReduction& facts = node_->facts;
  facts.input_sizes = input.sym_sizes().vec();
  facts.keepdim = arguments.keepdim;
  facts.number = arguments.number;
  with_torch_errors([&] {
    const DimSet chosen = reduce_request(op, input.dim(), arguments).dims;
    for (int64_t d = 0; d < input.dim(); ++d) {
      if (chosen[static_cast<size_t>(d)]) facts.dims.push_back(d);
    }
  });
  if (derivative->saves_input) node_->input = ag::SavedVariable(input, false);
}

ReductionGrad::~ReductionGrad() = default;

void ReductionGrad::record(const ReduceResults& results) {
  std::vector<Tensor> differentiable;
  for (const Tensor& result : results) {
    if (is_differentiable(result)) differentiable.push_back(result);
  }
  if (differentiable.empty()) return;
  if (derivative_ == nullptr) return refuse_to_differentiate(differentiable);
  if (node_ && ag::compute_requires_grad(input_)) ag::set_history(differentiable, node_);
}

void ReductionGrad::refuse_to_differentiate(const std::vector<Tensor>& results) const {
  const bool has_tangents = input_._fw_grad(/*level=*/0).defined();
  const auto node = refusing_node(op_, has_tangents, ag::collect_next_edges(input_));
  if (ag::compute_requires_grad(input_)) ag::set_history(results, node);
}

void ReductionGrad::save(const ReduceResults& results) {
  if (!node_ || !ag::compute_requires_grad(input_)) return;
  for (size_t i = 0; i < kMaxResults; ++i) {
    if ((derivative_->saves_results >> i & 1u) != 0)
      node_->results[i] =
          ag::SavedVariable(results[i], /*is_output=*/is_differentiable(results[i]));
  }
}

// Note [Tangents of reductions]
ReduceResults ReductionGrad::tangents_of(const ReduceResults& results) const {
  SavedReduction saved = node_->facts;
  saved.input = ag::generated::details::toNonOptPrimal(input_);
  ReduceResults tangents;
  for (size_t i = 0; i < kMaxResults; ++i) {
    if (results[i].defined()) saved.results[i] = ag::generated::details::toNonOptPrimal(results[i]);
  }
  for (size_t i = 0; i < kMaxResults; ++i) {
    if (derivative_->results[i] == nullptr || !is_differentiable(results[i])) continue;
    const Tensor slope = derivative_->results[i](at::ones_like(saved.results[i]), saved).conj();
    const Tensor product = slope * tangent_;
    tangents[i] = saved.dims.empty() ? product : product.sum(saved.dims, saved.keepdim);
  }
  return tangents;
}

void ReductionGrad::set_tangents(const ReduceResults& results,
                                 const ReduceResults& tangents) const {
  for (size_t i = 0; i < kMaxResults; ++i) {
    if (!tangents[i].defined() || !is_differentiable(results[i])) continue;
    results[i]._set_fw_grad(fit(tangents[i], results[i].scalar_type()), /*level=*/0,
                            /*is_inplace_op=*/false);
  }
}

}  // namespace iterlab
