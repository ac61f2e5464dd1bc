// Reverse and forward mode of every operator, in the shape of torch's generated VariableType code.
#include "src/autograd.h"

#include <ATen/ops/real.h>
#include <ATen/ops/scalar_tensor.h>
#include <torch/csrc/autograd/FunctionsManual.h>
#include <torch/csrc/autograd/VariableTypeUtils.h>
#include <torch/csrc/autograd/functions/basic_ops.h>
#include <torch/csrc/autograd/saved_variable.h>

namespace iterlab {

namespace ag = torch::autograd;
using at::Tensor;

// Shape and dtype of an input: what its gradient must have. (A member of ElementwiseGrad::Node,
// so not of the anonymous namespace.)
struct InputMetadata {
  std::vector<c10::SymInt> sizes;
  at::ScalarType dtype = at::ScalarType::Undefined;

  void record(const Tensor& input) {
    sizes = input.sym_sizes().vec();
    dtype = input.scalar_type();
  }

  // A gradient of the result's shape and dtype as one of the input: broadcasting is summed away,
  // and a real input takes the real part.
  Tensor fit(Tensor grad) const {
    if (!grad.defined()) return grad;
    if (grad.is_complex() && !c10::isComplexType(dtype)) grad = at::real(grad);
    if (!grad.sym_sizes().equals(sizes)) grad = grad.sum_to_size_symint(sizes);
    return grad.scalar_type() == dtype ? grad : grad.to(dtype);
  }
};

namespace {

// Note [No copies of tensors]
// A copy of a tensor that Python holds takes the GIL (since torch 2.13), about as long as a small
// call. isFwGradDefined and the like take std::optional, which is a copy.
bool any_tangent(const Arguments& arguments) {
  for (int i = 0; i < arguments.num_tensors; ++i) {
    if (arguments.tensors[i]->_fw_grad(/*level=*/0).defined()) return true;
  }
  return false;
}

// Operand i as formulas get it. A number is a plain 0-d tensor there: what is weak in promotion
// reaches code in Python as a float, which operators do not take in the place of every tensor.
Tensor operand(const Arguments& arguments, int i) {
  const std::optional<at::Scalar> number = arguments.number(i);
  if (!number) return *arguments.tensors[i];
  const at::ScalarType dtype =
      number->isFloatingPoint() ? at::kDouble : arguments.tensors[i]->scalar_type();
  return at::scalar_tensor(*number, dtype);
}

bool requires_grad(const Tensor& tensor) { return ag::compute_requires_grad(tensor); }

bool is_differentiable(at::ScalarType dtype) {
  return c10::isFloatingType(dtype) || c10::isComplexType(dtype);
}

}  // namespace

NodePtr<ag::Node> refusing_node(const OpInfo& op, bool has_tangents, ag::edge_list edges) {
  TORCH_CHECK_NOT_IMPLEMENTED(!has_tangents, "Trying to use forward AD with iterlab::", op.name,
                              " that does not support it because it has no derivative");
  return make_node<ag::NotImplemented>("iterlab::" + std::string(op.name), std::move(edges));
}

struct ElementwiseGrad::Node : ag::Node {
  const OpInfo* op = nullptr;
  const Derivative* derivative = nullptr;
  std::array<InputMetadata, kMaxOperands> metadata;
  std::array<ag::SavedVariable, kMaxOperands> inputs;
  ag::SavedVariable result;
  SavedParameters parameters;

  std::string name() const override { return "Iterlab" + std::string(op->name) + "Backward"; }

  void release_variables() override {
    for (ag::SavedVariable& input : inputs) input.reset_data();
    result.reset_data();
  }

  ag::variable_list apply(ag::variable_list&& grads) override {
    ag::variable_list out(static_cast<size_t>(op->num_inputs));
    const Tensor& grad = grads[0];
    if (!grad.defined()) return out;
    Saved saved;
    saved.parameters = parameters;
    for (size_t i = 0; i < out.size(); ++i) {
      if ((derivative->saves_inputs >> i & 1u) != 0) saved.inputs[i] = inputs[i].unpack();
    }
    if (derivative->saves_result) saved.result = result.unpack(getptr());
    for (size_t i = 0; i < out.size(); ++i) {
      if (derivative->inputs[i] == nullptr || !task_should_compute_output(i)) continue;
      out[i] = metadata[i].fit(derivative->inputs[i](grad, saved));
    }
    return out;
  }
};

ElementwiseGrad::ElementwiseGrad(const OpInfo& op, const Derivative* derivative,
                                 const Arguments& arguments, bool in_place)
    : op_(op), derivative_(derivative), arguments_(arguments), in_place_(in_place) {
  bool any_requires_grad = false;
  for (int i = 0; i < arguments.num_tensors; ++i)
    any_requires_grad = any_requires_grad || requires_grad(*arguments.tensors[i]);
  if (in_place) ag::check_inplace(*arguments.tensors[0], any_requires_grad);
  requires_grad_ = any_requires_grad;
  has_tangents_ = any_tangent(arguments);
  const bool is_constant = gives_bool(op.promotion) && !in_place;
  if (derivative == nullptr || is_constant) return;
  const bool reads_first = (derivative->saves_inputs & 1u) != 0;
  if (in_place && has_tangents_ && reads_first) original_ = arguments.tensors[0]->clone();
  if (!any_requires_grad) return;
  node_ = make_node<Node>();
  node_->set_next_edges(edges());
  node_->op = &op;
  node_->derivative = derivative;
  node_->parameters.record(arguments);
  for (int i = 0; i < arguments.num_tensors; ++i) {
    const auto k = static_cast<size_t>(i);
    const Tensor& input = *arguments.tensors[i];
    node_->metadata[k].record(input);
    if ((derivative->saves_inputs >> i & 1u) == 0) continue;
    node_->inputs[k] =
        in_place && i == 0
            ? ag::SavedVariable(original_.defined() ? original_ : input.clone(), false)
            : ag::SavedVariable(operand(arguments, i), false);
  }
}

ElementwiseGrad::~ElementwiseGrad() = default;

// To the operands that require grad.
ag::edge_list ElementwiseGrad::edges() const {
  ag::edge_list edges(static_cast<size_t>(arguments_.num_tensors));
  for (size_t i = 0; i < edges.size(); ++i) {
    const Tensor& input = *arguments_.tensors[i];
    if (input.requires_grad()) edges[i] = ag::impl::gradient_edge(input);
  }
  return edges;
}

void ElementwiseGrad::finish(const Tensor& result) {
  if (!is_differentiable(result.scalar_type())) return;
  if (derivative_ == nullptr) return refuse_to_differentiate(result);
  if (node_ && in_place_) ag::rebase_history(result, node_);
  if (node_ && !in_place_) ag::set_history(result, node_);
  if (has_tangents_) set_tangent(result);
  // Saved with its tangent, so that a backward can be differentiated forward.
  if (node_ && derivative_->saves_result) {
    node_->result = ag::SavedVariable(result, /*is_output=*/true, in_place_);
  }
}

void ElementwiseGrad::refuse_to_differentiate(const Tensor& result) const {
  const auto node = refusing_node(op_, has_tangents_, edges());
  if (!requires_grad_) return;
  if (in_place_) {
    ag::rebase_history(result, node);
  } else {
    ag::set_history(result, node);
  }
}

// Note [One formula for both modes]
void ElementwiseGrad::set_tangent(const Tensor& result) {
  namespace details = ag::generated::details;
  Saved saved;
  saved.parameters.record(arguments_);
  for (int i = 0; i < arguments_.num_tensors; ++i) {
    const Tensor input =
        in_place_ && i == 0 && original_.defined() ? original_ : operand(arguments_, i);
    saved.inputs[static_cast<size_t>(i)] = details::toNonOptPrimal(input);
  }
  saved.result = details::toNonOptPrimal(result);
  Tensor tangent;
  for (int i = 0; i < arguments_.num_tensors; ++i) {
    const GradFormula formula = derivative_->inputs[static_cast<size_t>(i)];
    const Tensor input_tangent = details::toNonOptFwGrad(*arguments_.tensors[i]);
    if (formula == nullptr || !input_tangent.defined()) continue;
    const bool symmetric = (derivative_->symmetric_inputs >> i & 1u) != 0;
    const Tensor part =
        symmetric ? formula(input_tangent, saved) : formula(input_tangent.conj(), saved).conj();
    tangent = tangent.defined() ? tangent + part : part;
  }
  if (!tangent.defined()) return;
  if (!tangent.sym_sizes().equals(result.sym_sizes()))
    tangent = tangent.expand_symint(result.sym_sizes());
  if (tangent.is_complex() && !result.is_complex()) tangent = at::real(tangent);
  if (tangent.scalar_type() != result.scalar_type()) tangent = tangent.to(result.scalar_type());
  // An existing tangent is written, not replaced: views of the tensor share it.
  const Tensor before = details::toNonOptFwGrad(result);
  if (in_place_ && before.defined()) tangent = before.copy_(tangent);
  result._set_fw_grad(tangent, /*level=*/0, /*is_inplace_op=*/in_place_);
}

void refuse_out_with_grad(const OpInfo& op, const Arguments& arguments, const Tensor& out) {
  bool any = requires_grad(out);
  for (int i = 0; i < arguments.num_tensors; ++i) any = any || requires_grad(*arguments.tensors[i]);
  if (any) ag::throw_error_out_requires_grad(op.name);
  TORCH_CHECK_NOT_IMPLEMENTED(!any_tangent(arguments) && !out._fw_grad(/*level=*/0).defined(),
                              "Trying to use forward AD with iterlab::", op.name,
                              ".out that does not support it");
}

}  // namespace iterlab
