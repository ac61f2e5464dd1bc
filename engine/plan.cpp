// make_plan: the table of contents of planning.
#include "engine/plan.h"

#include "engine/overlap.h"
#include "engine/path.h"
#include "engine/shape_plan.h"

namespace iterlab {
namespace {

void validate(const Operands& operands, const OpInfo& op) {
  for (int i = 0; i < operands.size(); ++i) {
    if (i < operands.num_outputs && operands[i].output_kind == OutputKind::Allocated) continue;
    if (type_index(operands[i].dtype) < 0) {
      throw PlanError(
          PlanError::Kind::NotImplemented, op,
          "expected dense operands of a bool, integer, floating or complex dtype, got operand " +
              std::to_string(i) + " of another dtype");
    }
  }
}

// Outputs, once they exist: their own strides, or those that the plan gives them.
int64_t operand_stride(const Operands& operands, const Plan& plan, int i, int d) {
  const bool planned =
      i < operands.num_outputs &&
      (operands[i].output_kind == OutputKind::Allocated || (plan.resized_outputs >> i & 1u) != 0);
  return planned ? plan.output_strides[d] : broadcast_stride(operands[i], plan.shape, d);
}

DType operand_dtype(const Operands& operands, const Plan& plan, int i) {
  const bool allocated =
      i < operands.num_outputs && operands[i].output_kind == OutputKind::Allocated;
  return allocated ? plan.result_dtype : operands[i].dtype;
}

// Note [Rounded operands]
// Half-precision dtypes compute in float, but a call's operands have the values of the common
// dtype, as in ATen: an int32 or a 0-d float beside halves is rounded to half first, so that `half
// == 0.1f` compares with half(0.1), and a float output beside a half result gets a half's value.
// Where ATen's kernels read a number at its own precision, so does `wide_inputs`. The dtypes that
// every half-precision dtype holds exactly need no rounding.
bool is_rounded(const Operands& operands, const Plan& plan, const OpInfo& op, int i) {
  if (plan.common_dtype == plan.compute_dtype) return false;
  const DType dtype = plan.operands[static_cast<size_t>(i)].dtype;
  if (i < operands.num_outputs) {
    return dtype != plan.result_dtype && compute_dtype(plan.result_dtype) != plan.result_dtype;
  }
  const int input = i - operands.num_outputs;
  const bool cast = ((op.promoted_inputs | op.number_inputs) >> input & 1u) != 0;
  const bool wide = (op.wide_inputs >> input & 1u) != 0 &&
                    operands.input(input).category() != PromotionCategory::Dimensioned;
  const bool exact = dtype == plan.common_dtype || dtype == real_of(plan.common_dtype) ||
                     dtype == DType::Bool || dtype == DType::Byte || dtype == DType::Char;
  return cast && !wide && !exact;
}

// Whether every output is memory of its own, which no input reads. Note [Streaming stores]
bool may_stream(const Operands& operands) {
  for (int o = 0; o < operands.num_outputs; ++o) {
    const Operand& output = operands.output(o);
    if (output.output_kind == OutputKind::Inplace) return false;
    if (output.output_kind == OutputKind::Allocated) continue;
    for (int i = 0; i < operands.num_inputs; ++i) {
      if (operands.input(i).data == output.data) return false;
    }
  }
  return true;
}

// All operands share one dense layout: one flat run.
void flatten(const Operands& operands, Plan& plan) {
  plan.permutation.resize(0);
  plan.loop_shape.resize(1);
  plan.loop_shape[0] = plan.numel;
  for (int i = 0; i < operands.size(); ++i) {
    auto& operand = plan.operands[static_cast<size_t>(i)];
    operand.strides.resize(1);
    operand.strides[0] = element_size(operand.dtype);
  }
}

// Byte strides in iteration order.
void order(const Operands& operands, Plan& plan) {
  const int ndim = plan.permutation.size();
  plan.loop_shape.resize(ndim);
  for (int d = 0; d < ndim; ++d)
    plan.loop_shape[d] = plan.shape[static_cast<int>(plan.permutation[d])];
  for (int i = 0; i < operands.size(); ++i) {
    auto& operand = plan.operands[static_cast<size_t>(i)];
    const int64_t element = element_size(operand.dtype);
    operand.strides.resize(ndim);
    for (int d = 0; d < ndim; ++d) {
      operand.strides[d] =
          operand_stride(operands, plan, i, static_cast<int>(plan.permutation[d])) * element;
    }
  }
}

// Merges neighbouring dims that every operand walks as one: stride[outer] == size[inner] *
// stride[inner].
void coalesce(Plan& plan) {
  const int ndim = plan.loop_shape.size();
  if (ndim <= 1) return;
  const auto for_each_operand = [&](auto&& fn) {
    for (int i = 0; i < plan.num_operands; ++i) fn(plan.operands[static_cast<size_t>(i)].strides);
  };
  int last = 0;
  for (int d = 1; d < ndim; ++d) {
    const int64_t size = plan.loop_shape[last];
    bool merges = true;
    if (size != 1 && plan.loop_shape[d] != 1) {
      for_each_operand(
          [&](const Dims& strides) { merges = merges && size * strides[last] == strides[d]; });
    }
    if (merges) {
      if (size == 1) for_each_operand([&](Dims& strides) { strides[last] = strides[d]; });
      plan.loop_shape[last] *= plan.loop_shape[d];
    } else {
      ++last;
      for_each_operand([&](Dims& strides) { strides[last] = strides[d]; });
      plan.loop_shape[last] = plan.loop_shape[d];
    }
  }
  plan.loop_shape.resize(last + 1);
  for_each_operand([&](Dims& strides) { strides.resize(last + 1); });
}

void make_plain_plan(const Operands& operands, const OpInfo& op, Plan& plan) {
  const Operand& first = operands.input(0);
  plan.op = &op;
  plan.num_outputs = operands.num_outputs;
  plan.num_operands = operands.size();
  plan.shape = Dims(first.sizes);
  set_dtypes(first.dtype, op, plan);
  contiguous_strides<int64_t>(plan.shape, plan.output_strides);
  plan.same_layout = true;
  plan.numel = numel(plan.shape);
  plan.loop_shape.push_back(plan.numel);
  plan.legal_paths = path_bit(Path::vectorized) | path_bit(Path::strided) | path_bit(Path::generic);
  for (int i = 0; i < plan.num_operands; ++i) {
    OperandPlan& operand = plan.operands[static_cast<size_t>(i)];
    operand.dtype = i < plan.num_outputs ? plan.result_dtype : first.dtype;
    const int64_t element = element_size(operand.dtype);
    operand.strides.push_back(element);
    plan.bytes += element * plan.numel;
  }
  choose_lane_dtypes(plan);
  plan.tile_inner = kTileBytes / widest_element(plan);
  for (int i = 0; i < plan.num_operands; ++i) {
    OperandPlan& operand = plan.operands[static_cast<size_t>(i)];
    operand.staged = operand.dtype != operand.lane_dtype;
  }
}

}  // namespace

// Note [Plain operands]
// Most small calls have contiguous operands of one shape and dtype, and a new output. Their plan is
// known at once: the one that the steps of make_plan come to, 0.1 us earlier. Large outputs, which
// may be streamed, take the steps.
bool are_plain(const Operands& operands, const OpInfo& op) {
  const Operand& first = operands.input(0);
  const bool promotes_all =
      op.promoted_inputs == (1u << operands.num_inputs) - 1 && op.bool_inputs == 0;
  if (!promotes_all || first.sizes.empty() || first.sizes.size() > kMaxDims ||
      !op.dtypes.contains(first.dtype))
    return false;
  if (op.promotion == Promotion::ToArgument || op.preserves_strides) return false;
  if (operands.rounds || forced_path()) return false;
  if (op.promotion == Promotion::IntToFloat && is_integral(first.dtype, true)) return false;
  for (int i = 0; i < operands.num_outputs; ++i) {
    if (operands.output(i).output_kind != OutputKind::Allocated) return false;
  }
  int64_t numel = 1;
  for (size_t d = first.sizes.size(); d-- > 0;) {
    if (first.sizes[d] != 1 && first.strides[d] != numel) return false;
    numel *= first.sizes[d];
  }
  if (numel == 0 || numel >= kPlainBelow) return false;
  for (int i = 1; i < operands.num_inputs; ++i) {
    const Operand& operand = operands.input(i);
    if (operand.dtype != first.dtype || !same_sizes(operand.sizes, first.sizes)) return false;
    if (!same_sizes(operand.strides, first.strides) &&
        !is_contiguous(operand.sizes, operand.strides))
      return false;
  }
  return !refused(operands, op);
}

void make_plan(const Operands& operands, const OpInfo& op, Plan& plan) {
  if (are_plain(operands, op)) return make_plain_plan(operands, op, plan);
  validate(operands, op);
  make_shape_plan(operands, op, plan);
  check_overlap(operands, op);
  plan.numel = numel(plan.shape);
  plan.may_stream = may_stream(operands);
  for (int i = 0; i < operands.size(); ++i) {
    OperandPlan& operand = plan.operands[static_cast<size_t>(i)];
    operand.dtype = operand_dtype(operands, plan, i);
    operand.rounded = is_rounded(operands, plan, op, i);
  }
  if (plan.same_layout) {
    flatten(operands, plan);
  } else {
    order(operands, plan);
    coalesce(plan);
  }
  classify(plan);
  choose_path(plan);
}

}  // namespace iterlab
