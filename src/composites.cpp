// Operators that are written from others: they fit no single plan, or choose among several.
// Registered as composites, so that autograd, Meta and transforms see the operators below them.
#include "src/composites.h"

#include "iterlab/dtype.h"
#include "src/call_operator.h"
#include "src/define_composite.h"

namespace iterlab {
namespace {

using at::Scalar;
using at::Tensor;

// clamp: whichever bounds are given. A bound is a tensor or a number, and may be None.
template <class Bound>
struct Clamp {
  using Value = std::conditional_t<std::is_same_v<Bound, Scalar>, const Scalar&, const Tensor&>;
  static constexpr bool numbers = std::is_same_v<Bound, Scalar>;
  static constexpr const char* lower = numbers ? "Scalar_min" : "";
  static constexpr const char* upper = numbers ? "Scalar_max" : "";
  static constexpr const char* between = numbers ? "Scalar_min_max" : "";

  static void require(bool any) {
    TORCH_CHECK(any, "iterlab::clamp: expected min or max or both, got None for both");
  }

  static Tensor functional(const Tensor& input, const std::optional<Bound>& min,
                           const std::optional<Bound>& max) {
    static const auto both = entry<Tensor(const Tensor&, Value, Value)>("clamp_between", between);
    static const auto low = entry<Tensor(const Tensor&, Value)>("clamp_min", lower);
    static const auto high = entry<Tensor(const Tensor&, Value)>("clamp_max", upper);
    require(min || max);
    if (min && max) return both.call(input, *min, *max);
    return min ? low.call(input, *min) : high.call(input, *max);
  }

  static Tensor& out(const Tensor& input, const std::optional<Bound>& min,
                     const std::optional<Bound>& max, Tensor& result) {
    static const std::string suffix = numbers ? "_out" : "out";
    static const auto both = entry<Tensor&(const Tensor&, Value, Value, Tensor&)>(
        "clamp_between", (between + suffix).c_str());
    static const auto low =
        entry<Tensor&(const Tensor&, Value, Tensor&)>("clamp_min", (lower + suffix).c_str());
    static const auto high =
        entry<Tensor&(const Tensor&, Value, Tensor&)>("clamp_max", (upper + suffix).c_str());
    require(min || max);
    if (min && max) return both.call(input, *min, *max, result);
    return min ? low.call(input, *min, result) : high.call(input, *max, result);
  }

  static Tensor& inplace(Tensor& input, const std::optional<Bound>& min,
                         const std::optional<Bound>& max) {
    static const auto both = entry<Tensor&(Tensor&, Value, Value)>("clamp_between_", between);
    static const auto low = entry<Tensor&(Tensor&, Value)>("clamp_min_", lower);
    static const auto high = entry<Tensor&(Tensor&, Value)>("clamp_max_", upper);
    require(min || max);
    if (min && max) return both.call(input, *min, *max);
    return min ? low.call(input, *min) : high.call(input, *max);
  }
};

// float_power: pow in double or complex double. The first tensor is converted where promotion with
// the other operand does not do it; the other one is converted on the way.
struct FloatPower {
  static at::ScalarType wide(bool complex) { return complex ? at::kComplexDouble : at::kDouble; }

  static Tensor widened(const Tensor& tensor, at::ScalarType dtype) {
    static const auto to = entry<Tensor(const Tensor&, at::ScalarType)>("to", "");
    return tensor.scalar_type() == dtype ? tensor : to.call(tensor, dtype);
  }

  static Tensor tensors(const Tensor& input, const Tensor& exponent) {
    static const auto pow = entry<Tensor(const Tensor&, const Tensor&)>("pow", "");
    const auto dtype = wide(input.is_complex() || exponent.is_complex());
    return pow.call(widened(input, dtype), widened(exponent, dtype));
  }
  static Tensor number_exponent(const Tensor& input, const Scalar& exponent) {
    static const auto pow = entry<Tensor(const Tensor&, const Scalar&)>("pow", "Scalar_exponent");
    const auto dtype = wide(input.is_complex() || exponent.isComplex());
    return pow.call(widened(input, dtype), exponent);
  }
  static Tensor number_base(const Scalar& input, const Tensor& exponent) {
    static const auto pow = entry<Tensor(const Scalar&, const Tensor&)>("pow", "Scalar_input");
    const auto dtype = wide(input.isComplex() || exponent.is_complex());
    return pow.call(input, widened(exponent, dtype));
  }

  static Tensor& tensors_out(const Tensor& input, const Tensor& exponent, Tensor& result) {
    static const auto pow = entry<Tensor&(const Tensor&, const Tensor&, Tensor&)>("pow", "out");
    const auto dtype = wide(input.is_complex() || exponent.is_complex());
    require(result, dtype);
    return pow.call(widened(input, dtype), widened(exponent, dtype), result);
  }
  static Tensor& number_exponent_out(const Tensor& input, const Scalar& exponent, Tensor& result) {
    static const auto pow =
        entry<Tensor&(const Tensor&, const Scalar&, Tensor&)>("pow", "Scalar_exponent_out");
    const auto dtype = wide(input.is_complex() || exponent.isComplex());
    require(result, dtype);
    return pow.call(widened(input, dtype), exponent, result);
  }
  static Tensor& number_base_out(const Scalar& input, const Tensor& exponent, Tensor& result) {
    static const auto pow =
        entry<Tensor&(const Scalar&, const Tensor&, Tensor&)>("pow", "Scalar_input_out");
    const auto dtype = wide(input.isComplex() || exponent.is_complex());
    require(result, dtype);
    return pow.call(input, widened(exponent, dtype), result);
  }

  static Tensor& tensors_inplace(Tensor& input, const Tensor& exponent) {
    static const auto pow = entry<Tensor&(Tensor&, const Tensor&)>("pow_", "");
    require(input, wide(input.is_complex() || exponent.is_complex()));
    return pow.call(input, exponent);
  }
  static Tensor& number_exponent_inplace(Tensor& input, const Scalar& exponent) {
    static const auto pow = entry<Tensor&(Tensor&, const Scalar&)>("pow_", "Scalar_exponent");
    require(input, wide(input.is_complex() || exponent.isComplex()));
    return pow.call(input, exponent);
  }

  // ATen takes outputs of the result's dtype only.
  static void require(const Tensor& output, at::ScalarType dtype) {
    TORCH_CHECK(output.scalar_type() == dtype, "iterlab::float_power: expected an output of dtype ",
                dtype_name(dtype), ", got ", dtype_name(output.scalar_type()));
  }
};

// max and min of two tensors, which torch has beside the reductions.
template <bool largest>
struct OfTwo {
  static constexpr const char* name = largest ? "maximum" : "minimum";

  static Tensor functional(const Tensor& input, const Tensor& other) {
    static const auto op = entry<Tensor(const Tensor&, const Tensor&)>(name, "");
    return op.call(input, other);
  }
  static Tensor& out(const Tensor& input, const Tensor& other, Tensor& result) {
    static const auto op = entry<Tensor&(const Tensor&, const Tensor&, Tensor&)>(name, "out");
    return op.call(input, other, result);
  }
};

// A tensor that is contiguous in a memory format: the input itself where it is.
Tensor contiguous(const Tensor& input, at::MemoryFormat format) {
  static const auto clone =
      entry<Tensor(const Tensor&, std::optional<at::MemoryFormat>)>("clone", "");
  TORCH_CHECK(format != at::MemoryFormat::Preserve,
              "iterlab::contiguous: expected a memory format other than preserve_format");
  return input.is_contiguous_or_false(format) ? input : clone.call(input, format);
}

// Schemas of clamp's and float_power's overloads: functional, out and in place.
template <class Function, class Out, class Inplace>
void register_variants(torch::Library& library, const std::string& name,
                       const std::string& overload, const std::string& arguments, Function function,
                       Out out, Inplace inplace) {
  const std::vector<at::Tag> tags = {at::Tag::pointwise, at::Tag::pt2_compliant_tag};
  const auto define = [&](const std::string& op, const std::string& variant,
                          const std::string& text, auto kernel) {
    define_composite(library, op + (variant.empty() ? "" : "." + variant) + text, tags, kernel);
  };
  define(name, overload, "(" + arguments + ") -> Tensor", function);
  define(name, overload.empty() ? "out" : overload + "_out",
         "(" + arguments + ", *, Tensor(a!) out) -> Tensor(a!)", out);
  if constexpr (!std::is_null_pointer_v<Inplace>) {
    const std::string written = "Tensor(a!)" + arguments.substr(std::string("Tensor").size());
    define(name + "_", overload, "(" + written + ") -> Tensor(a!)", inplace);
  }
}

TORCH_LIBRARY_FRAGMENT(iterlab, library) {
  register_variants(library, "clamp", "", "Tensor input, Tensor? min=None, Tensor? max=None",
                    &Clamp<Tensor>::functional, &Clamp<Tensor>::out, &Clamp<Tensor>::inplace);
  register_variants(library, "clamp", "Scalar", "Tensor input, Scalar? min=None, Scalar? max=None",
                    &Clamp<Scalar>::functional, &Clamp<Scalar>::out, &Clamp<Scalar>::inplace);
  register_variants(library, "float_power", "", "Tensor input, Tensor exponent",
                    &FloatPower::tensors, &FloatPower::tensors_out, &FloatPower::tensors_inplace);
  register_variants(library, "float_power", "Scalar_exponent", "Tensor input, Scalar exponent",
                    &FloatPower::number_exponent, &FloatPower::number_exponent_out,
                    &FloatPower::number_exponent_inplace);
  register_variants(library, "float_power", "Scalar_input", "Scalar input, Tensor exponent",
                    &FloatPower::number_base, &FloatPower::number_base_out, nullptr);
  const std::vector<at::Tag> tags = {at::Tag::pt2_compliant_tag};
  define_composite(
      library,
      "contiguous(Tensor(a) input, *, MemoryFormat memory_format=contiguous_format) -> Tensor(a)",
      tags, &contiguous);
}

}  // namespace

void register_extremes_of_two(torch::Library& library) {
  register_variants(library, "max", "other", "Tensor input, Tensor other", &OfTwo<true>::functional,
                    &OfTwo<true>::out, nullptr);
  register_variants(library, "min", "other", "Tensor input, Tensor other",
                    &OfTwo<false>::functional, &OfTwo<false>::out, nullptr);
}

const std::vector<CompositeInfo>& composite_table() {
  static const std::vector<CompositeInfo> table = {
      {"clamp", "clamp(input, min=None, max=None)",
       "input bounded by min and max, tensors or numbers, of which one may be missing.", "clamp",
       true, true},
      {"float_power", "float_power(input, exponent)",
       "input to the power of exponent, in double or complex double.", "float_power", true, true},
      {"contiguous", "contiguous(input, *, memory_format=torch.contiguous_format)",
       "input itself where it is contiguous in memory_format, else a copy that is.",
       "Tensor.contiguous", false, false},
      {"polygamma", "polygamma(n, input)", "The n-th derivative of digamma at input.", "polygamma",
       true, true},
      {"prelu", "prelu(input, weight)",
       "input where positive, weight * input elsewhere; weight is one number, or one for each "
       "channel.",
       "nn.functional.prelu", true, true},
      {"frexp", "frexp(input)",
       "mantissa and exponent, int32, of input = mantissa * 2^exponent with 0.5 <= |mantissa| < 1.",
       "frexp", true, false},
  };
  return table;
}

}  // namespace iterlab
