// Derivatives of the built-in reductions. Formulas call differentiable operators, so they can be
// differentiated again.
#include "src/reduction_derivatives.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cumprod.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/flip.h>
#include <ATen/ops/isnan.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/sgn.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>

namespace iterlab {
namespace {

using at::Tensor;

// A gradient of a result, broadcast to the input's shape.
Tensor expand_reduced(const Tensor& grad, const SavedReduction& saved) {
  return keep_dims(grad, saved).expand_symint(saved.input_sizes);
}

c10::SymInt reduced_count(const SavedReduction& saved) {
  c10::SymInt count(1);
  for (int64_t dim : saved.dims) count = count * saved.input_sizes[static_cast<size_t>(dim)];
  return count;
}

// The reduced dims moved to the end and flattened to one, and back.
class Flattened {
 public:
  explicit Flattened(const SavedReduction& saved) : saved_(saved) {
    const auto ndim = static_cast<int64_t>(saved.input_sizes.size());
    for (int64_t d = 0; d < ndim; ++d) {
      if (std::find(saved.dims.begin(), saved.dims.end(), d) == saved.dims.end())
        order_.push_back(d);
    }
    num_kept_ = order_.size();
    order_.insert(order_.end(), saved.dims.begin(), saved.dims.end());
  }

  std::vector<c10::SymInt> shape() const {
    std::vector<c10::SymInt> sizes;
    for (size_t i = 0; i < num_kept_; ++i) sizes.push_back(size(i));
    sizes.push_back(reduced_count(saved_));
    return sizes;
  }
  Tensor flat(const Tensor& input) const { return input.permute(order_).reshape_symint(shape()); }
  Tensor unflat(const Tensor& flattened) const {
    std::vector<c10::SymInt> sizes;
    for (size_t i = 0; i < order_.size(); ++i) sizes.push_back(size(i));
    std::vector<int64_t> inverse(order_.size());
    for (size_t i = 0; i < order_.size(); ++i)
      inverse[static_cast<size_t>(order_[i])] = static_cast<int64_t>(i);
    return flattened.reshape_symint(sizes).permute(inverse);
  }
  // A result, with one dim at the end for the reduced ones.
  Tensor column(const Tensor& result) const {
    return keep_dims(result, saved_).permute(order_).reshape_symint([&] {
      std::vector<c10::SymInt> sizes = shape();
      sizes.back() = 1;
      return sizes;
    }());
  }

 private:
  c10::SymInt size(size_t i) const { return saved_.input_sizes[static_cast<size_t>(order_[i])]; }

  const SavedReduction& saved_;
  std::vector<int64_t> order_;
  size_t num_kept_ = 0;
};

Tensor mean_grad(const Tensor& grad, const SavedReduction& saved) {
  return expand_reduced(grad / at::Scalar(reduced_count(saved)), saved);
}

Tensor nansum_grad(const Tensor& grad, const SavedReduction& saved) {
  return expand_reduced(grad, saved) * saved.input.isnan().logical_not();
}

Tensor nanmean_grad(const Tensor& grad, const SavedReduction& saved) {
  const Tensor there = saved.input.isnan().logical_not();
  return keep_dims(grad, saved) / there.sum(saved.dims, true) * there;
}

// The product of all other elements, by products from the left and from the right: right where
// there are zeros.
Tensor prod_grad(const Tensor& grad, const SavedReduction& saved) {
  if (saved.dims.empty()) return grad;
  const Flattened flattened(saved);
  const Tensor x = flattened.flat(saved.input);
  const c10::SymInt count = reduced_count(saved);
  const Tensor one = at::ones_like(x.narrow_symint(-1, 0, count.min(1)));
  const auto before = [&](const Tensor& elements) {
    if (TORCH_GUARD_OR_FALSE(count.sym_eq(0))) return elements;
    return at::cat({one, elements.narrow_symint(-1, 0, count - 1)}, -1).cumprod(-1);
  };
  const Tensor others = before(x) * before(x.flip({-1})).flip({-1});
  return expand_reduced(grad, saved) * flattened.unflat(others).conj();
}

// Shared evenly by all elements that equal the result, NaN being equal to NaN.
Tensor extreme_grad(const Tensor& grad, const SavedReduction& saved, const Tensor& result) {
  const Tensor extreme = keep_dims(result, saved);
  const Tensor mask =
      saved.input.eq(extreme).logical_or(saved.input.isnan().logical_and(extreme.isnan()));
  const Tensor ties = saved.dims.empty() ? at::ones_like(mask) : mask.sum(saved.dims, true);
  return keep_dims(grad, saved) / ties * mask;
}

template <int i>
Tensor extreme_grad_of(const Tensor& grad, const SavedReduction& saved) {
  return extreme_grad(grad, saved, saved.results[i]);
}

Tensor position_grad(const Tensor& grad, const SavedReduction& saved) {
  const Flattened flattened(saved);
  const Tensor values = flattened.column(grad);
  return flattened.unflat(values.new_zeros_symint(flattened.shape())
                              .scatter(-1, flattened.column(saved.results[1]), values));
}

Tensor variance_grad(const Tensor& grad, const SavedReduction& saved) {
  const c10::SymFloat freedom = c10::SymFloat(reduced_count(saved)) - saved.number;
  const Tensor mean = saved.dims.empty() ? saved.input : saved.input.mean(saved.dims, true);
  return keep_dims(grad, saved) * at::Scalar(c10::SymFloat(2.0) / freedom) * (saved.input - mean);
}

// Zero where the deviation is: its gradient there is not defined.
Tensor deviation_grad(const Tensor& grad, const SavedReduction& saved) {
  const Tensor& deviation = saved.results[0];
  return variance_grad((grad / (deviation * 2)).masked_fill(deviation == 0, 0), saved);
}

Tensor logsumexp_grad(const Tensor& grad, const SavedReduction& saved) {
  const Tensor total = keep_dims(saved.results[0], saved);
  const Tensor finite = total.masked_fill(total == -INFINITY, 0);
  return keep_dims(grad, saved) * (saved.input - finite).exp().conj();
}

// As torch.linalg.vector_norm's; 0 at the kink of orders above 1.
Tensor norm_grad(const Tensor& grad, const SavedReduction& saved) {
  const Tensor& x = saved.input;
  const Tensor g = keep_dims(grad, saved);
  const Tensor norm = keep_dims(saved.results[0], saved);
  const double p = saved.number;
  if (p == 0) return at::zeros_like(x);
  if (p == 1) return x.sgn() * g;
  if (p == 2) return x * (g / norm).masked_fill(norm == 0, 0);
  if (std::isinf(p)) {
    const Tensor magnitude = x.abs();
    const Tensor mask = magnitude.eq(norm).logical_or(magnitude.isnan().logical_and(norm.isnan()));
    const Tensor ties = saved.dims.empty() ? at::ones_like(mask) : mask.sum(saved.dims, true);
    return x.sgn() * (g / ties * mask);
  }
  if (p < 1) {
    return x.sgn() * x.abs().pow(p - 1).masked_fill(x == 0, 0) * (g * norm.pow(1 - p));
  }
  const Tensor scale = (g / norm.pow(p - 1)).masked_fill(norm == 0, 0);
  if (p < 2) return x.sgn() * x.abs().pow(p - 1) * scale;
  return x * x.abs().pow(p - 2) * scale;
}

constexpr ReductionDerivative of_reductions[] = {
    {.op = "sum", .results = {expand_reduced}, .linear = true},
    {.op = "nansum", .results = {nansum_grad}, .saves_input = true},
    {.op = "mean", .results = {mean_grad}, .linear = true},
    {.op = "nanmean", .results = {nanmean_grad}, .saves_input = true},
    {.op = "prod", .results = {prod_grad}, .saves_input = true},
    {.op = "amax", .results = {extreme_grad_of<0>}, .saves_input = true, .saves_results = 1},
    {.op = "amin", .results = {extreme_grad_of<0>}, .saves_input = true, .saves_results = 1},
    {.op = "max", .results = {extreme_grad_of<0>}, .saves_input = true, .saves_results = 1},
    {.op = "min", .results = {extreme_grad_of<0>}, .saves_input = true, .saves_results = 1},
    {.op = "aminmax",
     .results = {extreme_grad_of<0>, extreme_grad_of<1>},
     .saves_input = true,
     .saves_results = 3},
    {.op = "max", .overload = "dim", .results = {position_grad}, .saves_results = 2},
    {.op = "min", .overload = "dim", .results = {position_grad}, .saves_results = 2},
    {.op = "var", .results = {variance_grad}, .saves_input = true},
    {.op = "std", .results = {deviation_grad}, .saves_input = true, .saves_results = 1},
    {.op = "var_mean", .results = {variance_grad, mean_grad}, .saves_input = true},
    {.op = "std_mean",
     .results = {deviation_grad, mean_grad},
     .saves_input = true,
     .saves_results = 1},
    {.op = "logsumexp", .results = {logsumexp_grad}, .saves_input = true, .saves_results = 1},
    {.op = "norm", .results = {norm_grad}, .saves_input = true, .saves_results = 1},
};

}  // namespace

Tensor keep_dims(Tensor result, const SavedReduction& saved) {
  if (saved.keepdim) return result;
  for (int64_t dim : saved.dims) result = result.unsqueeze(dim);
  return result;
}

const ReductionDerivative* find_reduction_derivative(std::string_view op,
                                                     std::string_view overload) {
  const auto found =
      std::find_if(std::begin(of_reductions), std::end(of_reductions),
                   [&](const auto& entry) { return entry.op == op && entry.overload == overload; });
  return found == std::end(of_reductions) ? nullptr : &*found;
}

}  // namespace iterlab
