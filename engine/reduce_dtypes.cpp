// The dtypes of a reduction: what elements are converted to, what results have, what is refused.
#include "engine/reduce_plan.h"

namespace iterlab {
namespace {

[[noreturn]] void refuse_dtype(const OpInfo& op, const std::string& what) {
  throw PlanError(
      op.reduction.dtype_is_runtime ? PlanError::Kind::Runtime : PlanError::Kind::NotImplemented,
      op, what);
}

// A norm's dtype argument must widen the input's dtype and be complex with complex inputs, as in
// torch.
void check_norm_dtype(const OpInfo& op, DType input, DType element) {
  if (!op.dtypes.contains(input)) {
    refuse_dtype(op, "expected a floating point or complex input, got " + dtype_text(input));
  }
  if (is_complex(input) != is_complex(element) ||
      promote_types(input, element).value_or(DType::Undefined) != element) {
    refuse_dtype(op, "expected a dtype argument that holds elements of " + dtype_text(input) +
                         " without narrowing, got " + dtype_text(element));
  }
}

DType result_dtype(ResultDType rule, DType input, DType element, bool dtype_given) {
  switch (rule) {
    case ResultDType::Widened:
      return is_integral(element, true) && !dtype_given ? DType::Long : element;
    case ResultDType::Real:
      return real_of(element);
    case ResultDType::Index:
      return DType::Long;
    case ResultDType::Truth:
      return input == DType::Byte ? DType::Byte : DType::Bool;
    default:
      return element;
  }
}

}  // namespace

void plan_reduce_dtypes(const OpInfo& op, DType input, DType argument, DType default_dtype,
                        DType& element, std::array<DType, kMaxResults>& results) {
  if (type_index(input) < 0) {
    throw PlanError(PlanError::Kind::NotImplemented, op,
                    "expected a dense dtype, got a quantized or bits dtype");
  }
  // int64 is what integers give when nothing is asked for, without a copy of them in int64.
  const bool widens = op.reduction.results[0] == ResultDType::Widened && is_integral(input, true);
  const bool given = argument != DType::Undefined && !(widens && argument == DType::Long);
  element = given ? argument : input;
  if (op.reduction.ints_to_float && is_integral(element, true)) element = default_dtype;
  const bool narrows_complex = is_complex(input) && !op.dtypes.contains(input);
  if (narrows_complex || !op.dtypes.contains(element))
    refuse_dtype(op, "expected a dtype that it computes in, got " +
                         dtype_text(narrows_complex ? input : element));
  if (op.reduction.schema == ReduceSchema::Order) check_norm_dtype(op, input, element);
  for (size_t i = 0; i < kMaxResults; ++i)
    results[i] = result_dtype(op.reduction.results[i], input, element, given);
  const auto is_half = [](DType dtype) { return dtype == DType::Half || dtype == DType::BFloat16; };
  if (op.reduction.rounds_last && is_half(element) && element != input) element = DType::Float;
  // Kernels in float read halves as they are.
  if (op.reduction.reads_halves && is_half(input) && element == DType::Float) element = input;
}

void check_reduce_output(const OpInfo& op, DType result, DType dtype) {
  if (op.reduction.exact_out ? result == dtype : can_cast(result, dtype)) return;
  throw PlanError(
      PlanError::Kind::Runtime, op,
      std::string("expected an output ") +
          (op.reduction.exact_out ? "of the result's dtype " : "that can hold a result of dtype ") +
          dtype_text(result) + ", got one of dtype " + dtype_text(dtype));
}

}  // namespace iterlab
