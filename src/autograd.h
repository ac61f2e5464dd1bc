// Reverse and forward mode of every operator: what happens before and after the call below
// autograd.
#pragma once

#include "iterlab/op.h"
#include "src/call.h"
#include "src/derivatives.h"

#include <torch/csrc/autograd/function.h>
#include <torch/headeronly/version.h>

namespace iterlab {

// How autograd owns its nodes: intrusive pointers since torch 2.13, shared ones before.
#if TORCH_VERSION_MAJOR * 100 + TORCH_VERSION_MINOR >= 213
template <class Node>
using NodePtr = c10::intrusive_ptr<Node>;
template <class Node, class... Args>
NodePtr<Node> make_node(Args&&... args) {
  return c10::make_intrusive<Node>(std::forward<Args>(args)...);
}
#else
template <class Node>
using NodePtr = std::shared_ptr<Node>;
template <class Node, class... Args>
NodePtr<Node> make_node(Args&&... args) {
  return NodePtr<Node>(new Node(std::forward<Args>(args)...), torch::autograd::deleteNode);
}
#endif

// The node of a result whose operator has no derivative. Such an operator is no constant: asking
// for its gradient is an error, which the engine comes to only by way of edges that lead on. Raises
// where there are tangents.
NodePtr<torch::autograd::Node> refusing_node(const OpInfo& op, bool has_tangents,
                                             torch::autograd::edge_list edges);

// One call of an elementwise operator under autograd: made before the call, finished with its
// result.
class ElementwiseGrad {
 public:
  // `in_place`: the first tensor is overwritten by the call.
  ElementwiseGrad(const OpInfo& op, const Derivative* derivative, const Arguments& arguments,
                  bool in_place);
  ~ElementwiseGrad();
  void finish(const at::Tensor& result);

  struct Node;

 private:
  torch::autograd::edge_list edges() const;
  void refuse_to_differentiate(const at::Tensor& result) const;
  void set_tangent(const at::Tensor& result);

  const OpInfo& op_;
  const Derivative* derivative_;
  const Arguments& arguments_;
  bool in_place_;
  bool requires_grad_ = false;
  bool has_tangents_ = false;
  at::Tensor original_;  // of an in-place call: the first operand's value, where tangents need it
  NodePtr<Node> node_;
};

// Raises as ATen does where out= meets tensors that require grad.
void refuse_out_with_grad(const OpInfo& op, const Arguments& arguments, const at::Tensor& out);

}  // namespace iterlab
