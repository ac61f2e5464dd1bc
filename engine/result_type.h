// Result types: common, compute and result dtype of a call, and whether its outputs can hold the
// result.
#pragma once

#include "iterlab/error.h"
#include "iterlab/plan.h"

#include <array>

namespace iterlab {

inline std::string dtype_text(DType dtype) { return dtype_name(dtype); }

// The common dtype of the promoted inputs. Note [Promotion categories]
template <class Int>
DType common_dtype(const BasicOperands<Int>& operands, const OpInfo& op, int& promoted_by) {
  std::array<DType, kNumCategories> by_category;
  by_category.fill(DType::Undefined);
  for (int i = 0; i < operands.num_inputs; ++i) {
    if ((op.promoted_inputs >> i & 1u) == 0) continue;
    const auto& operand = operands.input(i);
    DType dtype = operand.dtype;
    if (type_index(dtype) < 0) {
      throw PlanError(PlanError::Kind::NotImplemented, op,
                      "expected a dense dtype, got an operand of a quantized or bits dtype");
    }
    const PromotionCategory category = operand.category();
    if (category == PromotionCategory::WrappedNumber) {  // a Python number has a kind, but no width
      if (is_complex(dtype)) dtype = complex_of(operands.default_dtype);
      if (is_floating(dtype)) dtype = operands.default_dtype;
    }
    auto& slot = by_category[static_cast<size_t>(category)];
    const std::optional<DType> promoted =
        slot == DType::Undefined ? dtype : promote_types(slot, dtype);
    if (!promoted) {
      throw PlanError(PlanError::Kind::Runtime, op,
                      "expected dtypes that promote to a common one, got " + dtype_text(slot) +
                          " and " + dtype_text(dtype));
    }
    slot = *promoted;
  }
  const auto& [dimensioned, zero_dim, wrapped] = by_category;
  const std::optional<DType> weaker = combine_categories(zero_dim, wrapped);
  const std::optional<DType> result = weaker ? combine_categories(dimensioned, *weaker) : weaker;
  if (!result) {
    throw PlanError(
        PlanError::Kind::Runtime, op,
        "expected dtypes that promote to a common one, got a mix that torch does not promote");
  }
  promoted_by = 0;
  for (int i = operands.num_inputs - 1; i >= 0; --i) {
    if ((op.promoted_inputs >> i & 1u) != 0 && operands.input(i).dtype == *result) promoted_by = i;
  }
  return *result;
}

template <class Int>
void check_bool_inputs(const BasicOperands<Int>& operands, const OpInfo& op) {
  for (int i = 0; i < operands.num_inputs; ++i) {
    const DType dtype = operands.input(i).dtype;
    if ((op.bool_inputs >> i & 1u) == 0 || dtype == DType::Bool || dtype == DType::Byte) continue;
    throw PlanError(PlanError::Kind::Runtime, op,
                    std::string("expected ") + op.inputs[static_cast<size_t>(i)] +
                        " to be a boolean tensor, got dtype " + dtype_text(dtype));
  }
}

// What the definition expects of its operands, where these are not so; null where they are.
template <class Int>
const char* refused(const BasicOperands<Int>& operands, const OpInfo& op) {
  if (op.refuses == nullptr) return nullptr;
  std::array<InputFacts, kMaxOperands> facts;
  for (int i = 0; i < operands.num_inputs; ++i)
    facts[static_cast<size_t>(i)] = {operands.input(i).dtype, operands.input(i).category()};
  return op.refuses(facts.data());
}

template <class Int>
void check_inputs(const BasicOperands<Int>& operands, const OpInfo& op) {
  const char* const expected = refused(operands, op);
  if (expected == nullptr) return;
  std::string got;
  for (int i = 0; i < operands.num_inputs; ++i)
    got += (i == 0 ? "" : ", ") + dtype_text(operands.input(i).dtype);
  throw PlanError(PlanError::Kind::Runtime, op,
                  std::string("expected ") + expected + ", got dtypes " + got);
}

// The dtype of a result that was computed in a common dtype.
constexpr DType dtype_of_result(Promotion promotion, DType common) {
  switch (promotion) {
    case Promotion::AlwaysBool:
    case Promotion::FloatToBool:
      return DType::Bool;
    case Promotion::ComplexToReal:
    case Promotion::IntToFloatComplexToReal:
      return real_of(common);
    case Promotion::AlwaysInt:
      return DType::Int;
    default:
      return common;
  }
}

// What follows from the common dtype.
template <class Int>
void set_dtypes(DType common, const OpInfo& op, BasicShapePlan<Int>& plan) {
  plan.common_dtype = common;
  plan.compute_dtype = op.moves_bits ? common : compute_dtype(common);
  plan.result_dtype = dtype_of_result(op.promotion, common);
}

template <class Int>
void plan_dtypes(const BasicOperands<Int>& operands, const OpInfo& op, BasicShapePlan<Int>& plan) {
  check_bool_inputs(operands, op);
  check_inputs(operands, op);
  DType common = common_dtype(operands, op, plan.promoted_by);
  const bool int_to_float = op.promotion == Promotion::IntToFloat ||
                            op.promotion == Promotion::FloatToBool ||
                            op.promotion == Promotion::IntToFloatComplexToReal;
  if (int_to_float && !operands.rounds && is_integral(common, true))
    common = operands.default_dtype;
  if (op.promotion == Promotion::BoolToInt && common == DType::Bool) common = DType::Long;
  if (op.promotion == Promotion::ToArgument) common = operands.dtype_argument;
  const bool number = operands.input(operands.num_inputs - 1).is_wrapped_number;
  if (!(operands.rounds ? op.rounded_dtypes : op.dtypes).contains(common) &&
      !(number && op.number_dtypes.contains(common))) {
    throw PlanError(PlanError::Kind::NotImplemented, op,
                    "expected a dtype that it computes in, got " + dtype_text(common));
  }
  set_dtypes(common, op, plan);
  for (int i = 0; i < operands.num_outputs; ++i) {
    const auto& output = operands.output(i);
    if (output.output_kind == OutputKind::Allocated) continue;
    if (output.output_kind == OutputKind::Inplace && plan.result_dtype == real_of(common) &&
        is_complex(common)) {
      throw PlanError(PlanError::Kind::Runtime, op,
                      "expected no complex operand in place: its result is real");
    }
    if (!can_cast(plan.result_dtype, output.dtype)) {
      throw PlanError(PlanError::Kind::Runtime, op,
                      "expected an output that can hold a result of dtype " +
                          dtype_text(plan.result_dtype) + ", got one of dtype " +
                          dtype_text(output.dtype));
    }
  }
}

}  // namespace iterlab
