// Operators that arrange their arguments and call one of the table, or two: polygamma, whose order
// comes first; prelu, whose weight is one number for each channel; frexp, which gives both parts.
#include "iterlab/dtype.h"
#include "iterlab/ops/activation.h"
#include "iterlab/ops/rounding.h"
#include "iterlab/ops/special.h"
#include "src/call_operator.h"
#include "src/define_composite.h"

namespace iterlab {
namespace {

using at::Tensor;

Tensor polygamma(int64_t n, const Tensor& input) { return call<ops::Polygamma>(input, n); }
Tensor& polygamma_out(int64_t n, const Tensor& input, Tensor& out) {
  return call_out<ops::Polygamma>(out, input, n);
}
Tensor& polygamma_inplace(Tensor& input, int64_t n) {
  return call_inplace<ops::Polygamma>(input, n);
}

// The weight in a shape that broadcasts to input's. weight: one number, or one for each channel:
// dim 1 of input, which counts as one where input has one dim.
Tensor channel_weight(const Tensor& input, const Tensor& weight) {
  TORCH_CHECK(weight.dim() <= 1,
              "iterlab::prelu: expected weight to be a number or a vector, got a tensor with ",
              weight.dim(), " dims");
  TORCH_CHECK(input.scalar_type() == weight.scalar_type(),
              "iterlab::prelu: expected input and weight of one dtype, got ", input.scalar_type(),
              " and ", weight.scalar_type());
  std::vector<c10::SymInt> shape(static_cast<size_t>(input.dim()), 1);
  if (weight.dim() == 0 || weight.sym_numel() == 1) return weight.reshape_symint(shape);
  const c10::SymInt channels = input.dim() > 1 ? input.sym_size(1) : c10::SymInt(1);
  TORCH_CHECK(input.dim() > 0 && channels == weight.sym_numel(),
              "iterlab::prelu: expected as many weights as input has channels, got ",
              weight.sym_numel(), " and ", channels);
  shape[1] = channels;
  return weight.reshape_symint(shape);
}

Tensor prelu(const Tensor& input, const Tensor& weight) {
  return call<ops::Prelu>(input, channel_weight(input, weight));
}
Tensor& prelu_out(const Tensor& input, const Tensor& weight, Tensor& out) {
  return call_out<ops::Prelu>(out, input, channel_weight(input, weight));
}
Tensor& prelu_inplace(Tensor& input, const Tensor& weight) {
  return call_inplace<ops::Prelu>(input, channel_weight(input, weight));
}

void require_floating(const Tensor& input) {
  TORCH_CHECK(input.is_floating_point(),
              "iterlab::frexp: expected an input of a floating point dtype, got ",
              dtype_name(input.scalar_type()));
}

std::tuple<Tensor, Tensor> frexp(const Tensor& input) {
  require_floating(input);
  return {call<ops::FrexpMantissa>(input), call<ops::FrexpExponent>(input)};
}

// The exponent first: mantissa may be input itself.
std::tuple<Tensor&, Tensor&> frexp_out(const Tensor& input, Tensor& mantissa, Tensor& exponent) {
  require_floating(input);
  const auto require = [](const char* name, const Tensor& output, at::ScalarType dtype) {
    TORCH_CHECK(output.scalar_type() == dtype, "iterlab::frexp: expected ", name, " of dtype ",
                dtype_name(dtype), ", got ", dtype_name(output.scalar_type()));
  };
  require("a mantissa", mantissa, input.scalar_type());
  require("an exponent", exponent, at::kInt);
  call_out<ops::FrexpExponent>(exponent, input);
  call_out<ops::FrexpMantissa>(mantissa, input);
  return {mantissa, exponent};
}

TORCH_LIBRARY_FRAGMENT(iterlab, library) {
  const std::vector<at::Tag> tags = {at::Tag::pointwise, at::Tag::pt2_compliant_tag};
  const auto define = [&](const char* schema, auto kernel) {
    define_composite(library, schema, tags, kernel);
  };
  define("polygamma(int n, Tensor input) -> Tensor", &polygamma);
  define("polygamma.out(int n, Tensor input, *, Tensor(a!) out) -> Tensor(a!)", &polygamma_out);
  define("polygamma_(Tensor(a!) input, int n) -> Tensor(a!)", &polygamma_inplace);
  define("prelu(Tensor input, Tensor weight) -> Tensor", &prelu);
  define("prelu.out(Tensor input, Tensor weight, *, Tensor(a!) out) -> Tensor(a!)", &prelu_out);
  define("prelu_(Tensor(a!) input, Tensor weight) -> Tensor(a!)", &prelu_inplace);
  define("frexp(Tensor input) -> (Tensor mantissa, Tensor exponent)", &frexp);
  define(
      "frexp.out(Tensor input, *, Tensor(a!) mantissa, Tensor(b!) exponent) -> (Tensor(a!) "
      "mantissa, Tensor(b!) exponent)",
      &frexp_out);
}

}  // namespace
}  // namespace iterlab
