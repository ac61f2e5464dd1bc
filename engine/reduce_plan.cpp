// make_reduce_plan: shapes and dtypes, then the order of dims and the form.
#include "engine/reduce_plan.h"

#include "engine/overlap.h"

#include <algorithm>
#include <cstdlib>

namespace iterlab {
namespace {

// Outputs with this few elements each are reduced as columns of transposed tiles: a block of lanes
// would stay empty.
constexpr int64_t kShortInner = 32;

struct LoopDim {
  int64_t size, input_stride, output_stride;
};

// Sorts dims by input stride, fastest first, and merges those that are walked as one. Broadcast
// dims come last.
void order_and_coalesce(std::array<LoopDim, kMaxDims>& dims, int& count) {
  const auto first = dims.begin();
  const auto key = [](const LoopDim& dim) {
    return std::pair(dim.input_stride == 0, std::abs(dim.input_stride));
  };
  std::stable_sort(first, first + count,
                   [&](const LoopDim& a, const LoopDim& b) { return key(a) < key(b); });
  int last = 0;
  for (int d = 1; d < count; ++d) {
    LoopDim& inner = dims[static_cast<size_t>(last)];
    const LoopDim& outer = dims[static_cast<size_t>(d)];
    if (inner.size * inner.input_stride == outer.input_stride &&
        inner.size * inner.output_stride == outer.output_stride) {
      inner.size *= outer.size;
    } else {
      dims[static_cast<size_t>(++last)] = outer;
    }
  }
  count = std::min(count, last + 1);
}

void plan_dims(const Operands& operands, ReducePlan& plan) {
  const int ndim = plan.shape.size();
  const Operand& input = operands.input(0);
  const bool own_strides =
      operands.output(0).output_kind == OutputKind::Given && !plan.resized_output;
  const bool keepdim = plan.output_shape.size() == ndim;
  std::array<LoopDim, kMaxDims> kept, reduced;
  int num_kept = 0, num_reduced = 0, output_dim = 0;
  plan.outputs = plan.reduced = 1;
  // Dims are visited from the last, so that equal strides keep the later dim faster.
  if (!keepdim) output_dim = plan.output_shape.size();
  for (int d = ndim - 1; d >= 0; --d) {
    const bool is_reduced = plan.reduced_dims[static_cast<size_t>(d)];
    if (!keepdim && !is_reduced) --output_dim;
    const int64_t size = plan.shape[d];
    (is_reduced ? plan.reduced : plan.outputs) *= size;
    if (size == 1) continue;
    const int64_t input_stride = input.strides[static_cast<size_t>(d)] * element_size(input.dtype);
    if (is_reduced) {
      reduced[static_cast<size_t>(num_reduced++)] = {size, input_stride, 0};
    } else {
      const int o = keepdim ? d : output_dim;
      const int64_t stride =
          own_strides ? operands.output(0).strides[static_cast<size_t>(o)] : plan.output_strides[o];
      kept[static_cast<size_t>(num_kept++)] = {size, input_stride,
                                               stride * element_size(plan.output_dtype)};
    }
  }
  order_and_coalesce(kept, num_kept);
  order_and_coalesce(reduced, num_reduced);
  for (int d = 0; d < num_kept; ++d) {
    const LoopDim& dim = kept[static_cast<size_t>(d)];
    plan.kept_shape.push_back(dim.size);
    plan.kept_input_strides.push_back(dim.input_stride);
    plan.kept_output_strides.push_back(dim.output_stride);
  }
  for (int d = 0; d < num_reduced; ++d) {
    plan.reduced_shape.push_back(reduced[static_cast<size_t>(d)].size);
    plan.reduced_strides.push_back(reduced[static_cast<size_t>(d)].input_stride);
  }
}

void choose_form(ReducePlan& plan) {
  const auto speed = [](const Dims& strides) {
    return strides.empty() || strides[0] == 0 ? INT64_MAX : std::abs(strides[0]);
  };
  const int64_t element = element_size(plan.input_dtype);
  const bool kept_is_faster =
      !plan.kept_shape.empty() && speed(plan.kept_input_strides) < speed(plan.reduced_strides);
  const int64_t columns = plan.kept_shape.empty() ? 1 : plan.kept_shape[0];
  if (kept_is_faster) {
    plan.form = ReduceForm::outer;
  } else if (plan.reduced <= kShortInner && columns > 1) {
    plan.form = ReduceForm::short_inner;
  } else {
    plan.form = ReduceForm::inner;
  }
  plan.strip = std::min(columns, kStripBytes / element_size(plan.accumulate_dtype));
  plan.split = plan.reduced > kLeaf;
  const Dims& fastest =
      plan.form == ReduceForm::outer ? plan.kept_input_strides : plan.reduced_strides;
  plan.staged = plan.form == ReduceForm::short_inner || plan.input_dtype != plan.accumulate_dtype ||
                plan.element_dtype != plan.accumulate_dtype || fastest.empty() ||
                fastest[0] != element;
  plan.bytes =
      plan.outputs * element_size(plan.output_dtype) + plan.outputs * plan.reduced * element;
}

}  // namespace

DimSet reduced_dims(std::optional<std::span<const int64_t>> dims, int ndim, const OpInfo& op) {
  if (ndim > kMaxDims) {
    throw PlanError(PlanError::Kind::Runtime, op,
                    "expected at most 128 dims, got an operand with " + std::to_string(ndim));
  }
  DimSet all;
  for (int d = 0; d < ndim; ++d) all.set(static_cast<size_t>(d));
  if (!dims || dims->empty()) return all;
  DimSet chosen;
  const int range = std::max(ndim, 1);
  for (int64_t dim : *dims) {
    if (dim < -range || dim >= range) {
      throw PlanError(PlanError::Kind::Index, op,
                      "Dimension out of range (expected to be in range of [" +
                          std::to_string(-range) + ", " + std::to_string(range - 1) +
                          "], but got " + std::to_string(dim) + ")");
    }
    const auto d = static_cast<size_t>(dim < 0 ? dim + range : dim);
    if (chosen[d]) {
      throw PlanError(PlanError::Kind::Runtime, op,
                      "expected each dim once, got dim " + std::to_string(dim) + " twice");
    }
    chosen.set(d);
  }
  return chosen & all;
}

void make_reduce_plan(const Operands& operands, const DimSet& dims, bool keepdim, const OpInfo& op,
                      ReducePlan& plan) {
  const Operand& input = operands.input(0);
  if (type_index(input.dtype) < 0) {
    throw PlanError(PlanError::Kind::NotImplemented, op,
                    "expected a dense dtype, got a quantized or bits dtype");
  }
  make_reduce_shape_plan(operands, dims, keepdim, op, plan);
  const Operand& output = operands.output(0);
  plan.output_dtype = output.output_kind == OutputKind::Given ? output.dtype : plan.result_dtype;
  check_overlap(operands, op);
  if (output.output_kind == OutputKind::Given && output.data != nullptr && plan.reduced > 1 &&
      overlap(output, input) == Overlap::Full) {
    throw PlanError(PlanError::Kind::Runtime, op,
                    "expected an output apart from the input, got the input itself");
  }
  plan_dims(operands, plan);
  choose_form(plan);
}

}  // namespace iterlab
