// Derivatives of the unary operators. Formulas call differentiable operators, so they can be
// differentiated again.
#include "iterlab/ops/activation_backward.h"
#include "iterlab/ops/binary.h"
#include "iterlab/ops/elementary.h"
#include "iterlab/ops/rounding.h"
#include "iterlab/ops/special.h"
#include "src/call_operator.h"
#include "src/derivatives.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <limits>
#include <numbers>

namespace iterlab {
namespace {

using at::Tensor;
using std::numbers::inv_sqrtpi;
using std::numbers::ln10;
using std::numbers::ln2;
using std::numbers::pi;
using std::numbers::sqrt2;

constexpr double kSqrtPi = 1 / inv_sqrtpi;

// A derivative that is a function of the input: grad times the conjugate of `slope`.
template <Tensor (*slope)(const Tensor& x)>
constexpr Derivative of_input(std::string_view op) {
  return {.op = op,
          .inputs = {[](const Tensor& grad, const Saved& saved) {
            return grad * slope(saved.inputs[0]).conj();
          }},
          .saves_inputs = 1};
}

// The same of the result.
template <Tensor (*slope)(const Tensor& y)>
constexpr Derivative of_result(std::string_view op) {
  return {.op = op,
          .inputs = {[](const Tensor& grad, const Saved& saved) {
            return grad * slope(saved.result).conj();
          }},
          .saves_result = true};
}

constexpr Derivative constant_slope(std::string_view op, GradFormula formula) {
  return {.op = op, .inputs = {formula}};
}

Tensor sgn_gradient(const Tensor& grad, const Saved& saved) {
  const Tensor& x = saved.inputs[0];
  if (!x.is_complex()) return at::zeros_like(grad);
  const Tensor magnitude = x.abs();
  const Tensor scaled = grad / magnitude;
  const Tensor direction = x.sgn();
  const Tensor along = at::real(scaled * direction.conj()) * direction;
  return (scaled - along).masked_fill(magnitude == 0, 0);
}

Tensor angle_gradient(const Tensor& grad, const Saved& saved) {
  const Tensor& x = saved.inputs[0];
  if (!x.is_complex()) return at::zeros_like(grad);
  const Tensor turned = x * at::Scalar(c10::complex<double>(0, 1)) / x.abs().square();
  return grad * turned.masked_fill(x == 0, 0);
}

Tensor sinc_slope(const Tensor& x) {
  const Tensor angle = x * pi;
  const Tensor square = angle * x;
  return ((angle * angle.cos() - angle.sin()) / square).masked_fill(square == 0, 0);
}

Tensor acosh_slope(const Tensor& x) {
  return x.is_complex() ? (x + 1).rsqrt() * (x - 1).rsqrt() : (x * x - 1).rsqrt();
}

Tensor logit_gradient(const Tensor& grad, const Saved& saved) {
  const Number eps = saved.number(0);
  return call<ops::LogitBackward>(
      grad, saved.inputs[0],
      eps.is_none() ? std::optional<double>() : std::optional<double>(eps.to<double>()));
}

Tensor polygamma_gradient(const Tensor& grad, const Saved& saved) {
  return grad * call<ops::Polygamma>(saved.inputs[0], saved.number(0).integer + 1);
}

Tensor frexp_gradient(const Tensor& grad, const Saved& saved) {
  const Tensor exponent = call<ops::FrexpExponent>(saved.inputs[0]);
  return call<ops::Ldexp>(grad, exponent.neg());
}

// Near 0, where the quotient of the formula cancels, the slope is one half.
Tensor half_near_zero(const Tensor& x, Tensor (*slope)(const Tensor& x)) {
  const double tiny = x.scalar_type() == at::kDouble ? std::numeric_limits<double>::epsilon()
                                                     : std::numeric_limits<float>::epsilon();
  const Tensor near_zero = x.abs() <= tiny;
  return at::where(near_zero, 0.5, slope(at::where(near_zero, tiny, x)));
}

Tensor i1_slope(const Tensor& x) {
  return half_near_zero(x, [](const Tensor& t) { return t.i0() - call<ops::I1>(t) / t; });
}

Tensor i1e_slope(const Tensor& x) {
  return half_near_zero(x, [](const Tensor& t) {
    return call<ops::I0e>(t) - call<ops::I1e>(t) * (t.sgn() + t.reciprocal());
  });
}

Tensor erfcx_slope(const Tensor& x) { return 2 * x * call<ops::Erfcx>(x) - 2 * inv_sqrtpi; }

Tensor log_ndtr_slope(const Tensor& x) {
  return (sqrt2 * inv_sqrtpi) / call<ops::Erfcx>(x * (-1 / sqrt2));
}

constexpr Derivative of_unary[] = {
    // Signs, arithmetic, rounding.
    {.op = "abs",
     .inputs = {[](const Tensor& grad, const Saved& saved) {
       return grad * saved.inputs[0].sgn();
     }},
     .saves_inputs = 1},
    constant_slope("neg", [](const Tensor& grad, const Saved&) { return grad.neg(); }),
    constant_slope("sign", zero),
    {.op = "sgn", .inputs = {sgn_gradient}, .saves_inputs = 1, .symmetric_inputs = 1},
    constant_slope("positive", unchanged),
    of_input<[](const Tensor& x) { return 2 * x; }>("square"),
    of_result<[](const Tensor& y) { return -(y * y); }>("reciprocal"),
    constant_slope("deg2rad", [](const Tensor& grad, const Saved&) { return grad * (pi / 180); }),
    constant_slope("rad2deg", [](const Tensor& grad, const Saved&) { return grad * (180 / pi); }),
    {.op = "angle", .inputs = {angle_gradient}, .saves_inputs = 1},
    constant_slope("conj_physical",
                   [](const Tensor& grad, const Saved&) { return grad.conj_physical(); }),
    {.op = "nan_to_num",
     .inputs = {[](const Tensor& grad, const Saved& saved) {
       return grad * at::isfinite(saved.inputs[0]);
     }},
     .saves_inputs = 1},
    constant_slope("ceil", zero),
    constant_slope("floor", zero),
    constant_slope("trunc", zero),
    {.op = "_frexp_mantissa", .inputs = {frexp_gradient}, .saves_inputs = 1},
    constant_slope("round", zero),
    constant_slope("frac", unchanged),

    // Powers and logarithms.
    of_result<[](const Tensor& y) { return y; }>("exp"),
    of_result<[](const Tensor& y) { return y * ln2; }>("exp2"),
    of_result<[](const Tensor& y) { return y + 1; }>("expm1"),
    of_input<[](const Tensor& x) { return x.reciprocal(); }>("log"),
    of_input<[](const Tensor& x) { return (x * ln2).reciprocal(); }>("log2"),
    of_input<[](const Tensor& x) { return (x * ln10).reciprocal(); }>("log10"),
    of_input<[](const Tensor& x) { return (x + 1).reciprocal(); }>("log1p"),
    {.op = "sqrt",
     .inputs = {[](const Tensor& grad, const Saved& saved) {
       return grad / (2 * saved.result.conj());
     }},
     .saves_result = true},
    of_result<[](const Tensor& y) { return -0.5 * y.pow(3); }>("rsqrt"),

    // Trigonometry.
    of_input<[](const Tensor& x) { return x.cos(); }>("sin"),
    of_input<[](const Tensor& x) { return -x.sin(); }>("cos"),
    of_result<[](const Tensor& y) { return y * y + 1; }>("tan"),
    of_input<[](const Tensor& x) { return (1 - x * x).rsqrt(); }>("asin"),
    of_input<[](const Tensor& x) { return -(1 - x * x).rsqrt(); }>("acos"),
    of_input<[](const Tensor& x) { return (x * x + 1).reciprocal(); }>("atan"),
    of_input<[](const Tensor& x) { return x.cosh(); }>("sinh"),
    of_input<[](const Tensor& x) { return x.sinh(); }>("cosh"),
    {.op = "tanh",
     .inputs = {[](const Tensor& grad, const Saved& saved) {
       return call<ops::TanhBackward>(grad, saved.result);
     }},
     .saves_result = true},
    of_input<[](const Tensor& x) { return (x * x + 1).rsqrt(); }>("asinh"),
    of_input<acosh_slope>("acosh"),
    of_input<[](const Tensor& x) { return (1 - x * x).reciprocal(); }>("atanh"),
    of_input<sinc_slope>("sinc"),
    {.op = "sigmoid",
     .inputs = {[](const Tensor& grad, const Saved& saved) {
       return call<ops::SigmoidBackward>(grad, saved.result);
     }},
     .saves_result = true},
    {.op = "logit", .inputs = {logit_gradient}, .saves_inputs = 1},

    // Special functions.
    of_input<[](const Tensor& x) { return (-(x * x)).exp() * (2 * inv_sqrtpi); }>("erf"),
    of_input<[](const Tensor& x) { return (-(x * x)).exp() * (-2 * inv_sqrtpi); }>("erfc"),
    of_result<[](const Tensor& y) { return (y * y).exp() * (kSqrtPi / 2); }>("erfinv"),
    of_input<[](const Tensor& x) { return x.digamma(); }>("lgamma"),
    of_input<[](const Tensor& x) { return x.polygamma(1); }>("digamma"),
    {.op = "_polygamma", .inputs = {polygamma_gradient}, .saves_inputs = 1},
    of_input<[](const Tensor& x) { return call<ops::I1>(x); }>("i0"),
    of_input<[](const Tensor& x) { return call<ops::I1e>(x) - x.sgn() * call<ops::I0e>(x); }>(
        "special_i0e"),
    of_input<i1_slope>("special_i1"),
    of_input<i1e_slope>("special_i1e"),
    of_input<[](const Tensor& x) { return -(x.log() + 1); }>("special_entr"),
    of_input<erfcx_slope>("special_erfcx"),
    of_input<[](const Tensor& x) { return (x * x * -0.5).exp() * (inv_sqrtpi / sqrt2); }>(
        "special_ndtr"),
    of_result<[](const Tensor& y) { return (y * y * 0.5).exp() * (kSqrtPi * sqrt2); }>(
        "special_ndtri"),
    of_input<log_ndtr_slope>("special_log_ndtr"),
};

}  // namespace

std::span<const Derivative> unary_derivatives() { return of_unary; }

}  // namespace iterlab
