// Reverse and forward mode of reductions: what happens before and after the call below autograd.
#pragma once

#include "src/autograd.h"
#include "src/reduction_call.h"
#include "src/reduction_derivatives.h"

namespace iterlab {

// One call of a reduction under autograd: made before the call, finished with its results.
class ReductionGrad {
 public:
  ReductionGrad(const OpInfo& op, const ReductionDerivative* derivative, const at::Tensor& input,
                const ReduceArguments& arguments);
  ~ReductionGrad();

  // `of_tangent` applies the operator to a tangent. Results are saved last, with their tangents: a
  // gradient has a tangent of its own through them (forward over reverse).
  template <class Call>
  void finish(const ReduceResults& results, const Call& of_tangent) {
    record(results);
    if (tangent_.defined())
      set_tangents(results, derivative_->linear ? of_tangent(tangent_) : tangents_of(results));
    save(results);
  }

  struct Node;

 private:
  void record(const ReduceResults& results);
  void refuse_to_differentiate(const std::vector<at::Tensor>& results) const;
  void save(const ReduceResults& results);
  ReduceResults tangents_of(const ReduceResults& results) const;
  void set_tangents(const ReduceResults& results, const ReduceResults& tangents) const;

  const OpInfo& op_;
  const ReductionDerivative* derivative_;
  at::Tensor input_;
  at::Tensor tangent_;
  NodePtr<Node> node_;
};

}  // namespace iterlab
