// Operators that arrange their arguments and call one of the table: polygamma, whose order comes
// first, and prelu, whose weight is one number for each channel.
#include "iterlab/ops/activation.h"
#include "iterlab/ops/special.h"
#include "src/call_operator.h"

#include <torch/library.h>

namespace iterlab {
namespace {

using at::Tensor;

Tensor polygamma(int64_t n, const Tensor& input) { return call<ops::Polygamma>(input, n); }

// weight: one number, or one for each channel: dim 1 of input, dim 0 where input has one dim.
Tensor prelu(const Tensor& input, const Tensor& weight) {
  TORCH_CHECK(weight.dim() <= 1,
              "iterlab::prelu: expected weight to be a number or a vector, got a tensor with ",
              weight.dim(), " dims");
  TORCH_CHECK(input.scalar_type() == weight.scalar_type(),
              "iterlab::prelu: expected input and weight of one dtype, got ", input.scalar_type(),
              " and ", weight.scalar_type());
  if (weight.dim() == 0 || weight.sym_numel() == 1) {
    const std::vector<c10::SymInt> ones(static_cast<size_t>(input.dim()), 1);
    return call<ops::Prelu>(input, Tensor(weight.reshape_symint(ones)));
  }
  const c10::SymInt channels = input.dim() > 1 ? input.sym_size(1) : c10::SymInt(1);
  TORCH_CHECK(input.dim() > 0 && channels == weight.sym_numel(),
              "iterlab::prelu: expected as many weights as input has channels, got ",
              weight.sym_numel(), " and ", channels);
  std::vector<c10::SymInt> shape(static_cast<size_t>(input.dim()), 1);
  shape[1] = channels;
  return call<ops::Prelu>(input, Tensor(weight.reshape_symint(shape)));
}

TORCH_LIBRARY_FRAGMENT(iterlab, library) {
  const std::vector<at::Tag> tags = {at::Tag::pt2_compliant_tag};
  library.def("polygamma(int n, Tensor input) -> Tensor", tags);
  library.impl("polygamma", c10::DispatchKey::CompositeImplicitAutograd, &polygamma);
  library.def("prelu(Tensor input, Tensor weight) -> Tensor", tags);
  library.impl("prelu", c10::DispatchKey::CompositeImplicitAutograd, &prelu);
}

}  // namespace
}  // namespace iterlab
