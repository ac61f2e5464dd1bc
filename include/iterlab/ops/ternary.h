// Operators with three tensor inputs, and clamps. To add one: a struct, and its name in the list at
// the end.
#pragma once

#include "iterlab/math_binary.h"
#include "iterlab/op.h"

namespace iterlab::ops {

struct Where : Ternary {
  static constexpr auto name = "where";
  static constexpr auto doc = "input where condition is true, other elsewhere.";
  static constexpr std::array inputs{"condition", "input", "other"};
  static constexpr uint32_t promoted_inputs = 0b110;
  static constexpr uint32_t bool_inputs = 0b001;
  static constexpr bool numbers_must_fit = true;
  static constexpr auto dtypes = kAllDTypes;
  static constexpr uint8_t variants = kFunctional | kOut;
  static constexpr bool moves_bits = true;
  template <class V>
  ITERLAB_FN V operator()(V condition, V input, V other) const {
    return math::select(math::is_true(condition), input, other);
  }
};

struct MaskedFill : Ternary {
  static constexpr auto name = "masked_fill";
  static constexpr auto torch_name = "Tensor.masked_fill";
  static constexpr auto doc = "value, as input's dtype, where mask is true, input elsewhere.";
  static constexpr std::array inputs{"input", "mask", "value"};
  static constexpr uint32_t promoted_inputs = 0b001;
  static constexpr uint32_t bool_inputs = 0b010;
  static constexpr uint32_t number_inputs = 0b100;
  static constexpr bool numbers_must_fit = true;
  static constexpr auto dtypes = kAllDTypes;
  static constexpr bool moves_bits = true;
  static constexpr const char* refuses(const InputFacts* inputs) {
    if (inputs[1].dtype != DType::Bool) return "a mask of dtype bool";
    const bool complex_value = is_complex(inputs[2].dtype) && !is_complex(inputs[0].dtype) &&
                               inputs[0].dtype != DType::Bool;
    return complex_value ? "a real value for a real input" : nullptr;
  }
  template <class V>
  ITERLAB_FN V operator()(V input, V mask, V value) const {
    return math::select(math::is_true(mask), value, input);
  }
};

struct ClampMin : Binary {
  static constexpr auto name = "clamp_min";
  static constexpr auto doc = "The larger of input and min; nan where either is.";
  static constexpr std::array inputs{"input", "min"};
  static constexpr auto dtypes = kReal;
  static constexpr bool numbers_must_fit = true;
  template <class V>
  ITERLAB_FN V operator()(V input, V min) const {
    return math::maximum(min, input);
  }
};

struct ClampMax : Binary {
  static constexpr auto name = "clamp_max";
  static constexpr auto doc = "The smaller of input and max; nan where either is.";
  static constexpr std::array inputs{"input", "max"};
  static constexpr auto dtypes = kReal;
  static constexpr bool numbers_must_fit = true;
  template <class V>
  ITERLAB_FN V operator()(V input, V max) const {
    return math::minimum(max, input);
  }
};

// `clamp` is this one, clamp_min or clamp_max: src/composites.cpp.
struct ClampBetween : Ternary {
  static constexpr auto name = "clamp_between";
  static constexpr auto torch_name = "clamp";
  static constexpr auto doc =
      "min(max(input, min), max): max where min is larger than max, nan where any operand is.";
  static constexpr std::array inputs{"input", "min", "max"};
  static constexpr auto dtypes = kInteger | kFloating;
  static constexpr bool numbers_must_fit = true;
  template <class V>
  ITERLAB_FN V operator()(V input, V min, V max) const {
    return math::minimum(max, math::maximum(min, input));
  }
};

struct Lerp : Ternary {
  static constexpr auto name = "lerp";
  static constexpr auto doc =
      "input + weight * (end - input), computed from the end that weight is nearer to.";
  static constexpr std::array inputs{"input", "end", "weight"};
  static constexpr uint32_t wide_inputs = 0b100;
  static constexpr DTypeSet beyond_torch = kInteger | kBool;
  static constexpr auto dtypes = kFloatingAndComplex;
  static constexpr double cost = 2;
  static constexpr const char* refuses(const InputFacts* inputs) {
    const bool ends = inputs[0].dtype == inputs[1].dtype ||
                      inputs[0].category == PromotionCategory::WrappedNumber ||
                      inputs[1].category == PromotionCategory::WrappedNumber;
    const bool weight =
        inputs[2].dtype == inputs[0].dtype || inputs[2].category != PromotionCategory::Dimensioned;
    return ends && weight ? nullptr : "operands of one dtype";
  }
  template <class V>
  ITERLAB_FN V operator()(V input, V end, V weight) const {
    const auto near_input = math::magnitude_below(weight, 0.5);
    const V from_nearer = math::select(near_input, weight, weight - constant<V>(1));
    return math::fma(from_nearer, end - input, math::select(near_input, input, end));
  }
};

struct ScaledTernary : Ternary {
  static constexpr std::array inputs{"input", "tensor1", "tensor2"};
  static constexpr std::array parameters{Parameter{
      .name = "value", .kind = ParameterKind::Scalar, .default_value = "1", .keyword_only = true}};
  static constexpr AutocastPolicy autocast{.cuda = Autocast::Promote};
};

struct AddCMul : ScaledTernary {
  static constexpr auto name = "addcmul";
  static constexpr auto doc = "input + value * tensor1 * tensor2.";
  static constexpr auto dtypes = kNumeric;
  template <class V>
  ITERLAB_FN V operator()(V input, V tensor1, V tensor2, V value) const {
    return input + value * tensor1 * tensor2;
  }
};

struct AddCDiv : ScaledTernary {
  static constexpr auto name = "addcdiv";
  static constexpr auto doc = "input + value * tensor1 / tensor2. Not of two integers.";
  static constexpr auto dtypes = kFloatingAndComplex;
  static constexpr double cost = 2;
  static constexpr const char* refuses(const InputFacts* inputs) {
    const bool integers = is_integral(inputs[1].dtype, true) && is_integral(inputs[2].dtype, true);
    return integers ? "tensor1 or tensor2 of a floating point or complex dtype" : nullptr;
  }
  template <class V>
  ITERLAB_FN V operator()(V input, V tensor1, V tensor2, V value) const {
    return input + value * tensor1 / tensor2;
  }
};

using TernaryOps =
    OpList<Where, MaskedFill, ClampMin, ClampMax, ClampBetween, Lerp, AddCMul, AddCDiv>;

}  // namespace iterlab::ops
