// make_reduce_plan: shapes, then the order of dims and the form.
#include "engine/reduce_plan.h"

#include "engine/overlap.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace iterlab {
namespace {

// Outputs with this few elements each are reduced as columns of transposed tiles: a block of lanes
// would stay empty. Where an element takes one operation and is read in place, a row is done before
// a tile is transposed, from where it is too long for registers (sums of 9 to 31 elements: 1.4 to
// 2.3 times as fast; variances and exponentials: half).
constexpr int64_t kShortInner = 32;
constexpr int64_t kShortInnerOfLight = kMaxDense;

struct LoopDim {
  int64_t size, input_stride;
  std::array<int64_t, kMaxResults> output_strides;
};

// Sorts dims by input stride, fastest first, and merges those that are walked as one. Broadcast
// dims come last. `keep_order`: positions count, so that dims stay as they are.
void order_and_coalesce(std::array<LoopDim, kMaxDims>& dims, int& count, bool keep_order) {
  const auto first = dims.begin();
  const auto key = [](const LoopDim& dim) {
    return std::pair(dim.input_stride == 0, std::abs(dim.input_stride));
  };
  if (!keep_order) {
    std::stable_sort(first, first + count,
                     [&](const LoopDim& a, const LoopDim& b) { return key(a) < key(b); });
  }
  const auto follows = [](const LoopDim& inner, const LoopDim& outer) {
    bool both = inner.size * inner.input_stride == outer.input_stride;
    for (size_t i = 0; i < kMaxResults; ++i)
      both = both && inner.size * inner.output_strides[i] == outer.output_strides[i];
    return both;
  };
  int last = 0;
  for (int d = 1; d < count; ++d) {
    LoopDim& inner = dims[static_cast<size_t>(last)];
    const LoopDim& outer = dims[static_cast<size_t>(d)];
    if (follows(inner, outer)) {
      inner.size *= outer.size;
    } else {
      dims[static_cast<size_t>(++last)] = outer;
    }
  }
  count = std::min(count, last + 1);
}

// Byte strides of the outputs along dim `o` of the output shape.
std::array<int64_t, kMaxResults> output_strides(const Operands& operands, const ReducePlan& plan,
                                                int o) {
  std::array<int64_t, kMaxResults> strides{};
  for (int i = 0; i < operands.num_outputs; ++i) {
    const auto k = static_cast<size_t>(i);
    const bool own = operands.output(i).output_kind == OutputKind::Given &&
                     (plan.resized_outputs >> i & 1u) == 0;
    strides[k] =
        (own ? operands.output(i).strides[static_cast<size_t>(o)] : plan.output_strides[o]) *
        element_size(plan.output_dtypes[k]);
  }
  return strides;
}

void plan_dims(const Operands& operands, ReducePlan& plan) {
  const int ndim = plan.shape.size();
  const Operand& input = operands.input(0);
  const bool keepdim = plan.output_shape.size() == ndim;
  std::array<LoopDim, kMaxDims> kept, reduced;
  int num_kept = 0, num_reduced = 0, output_dim = plan.output_shape.size();
  plan.outputs = plan.reduced = 1;
  // Dims are visited from the last, so that equal strides keep the later dim faster.
  for (int d = ndim - 1; d >= 0; --d) {
    const bool is_reduced = plan.reduced_dims[static_cast<size_t>(d)];
    if (!keepdim && !is_reduced) --output_dim;
    const int64_t size = plan.shape[d];
    (is_reduced ? plan.reduced : plan.outputs) *= size;
    if (size == 1) continue;
    const int64_t input_stride = input.strides[static_cast<size_t>(d)] * element_size(input.dtype);
    if (is_reduced) {
      reduced[static_cast<size_t>(num_reduced++)] = {size, input_stride, {}};
    } else {
      kept[static_cast<size_t>(num_kept++)] = {
          size, input_stride, output_strides(operands, plan, keepdim ? d : output_dim)};
    }
  }
  order_and_coalesce(kept, num_kept, false);
  order_and_coalesce(reduced, num_reduced, plan.op->reduction.ordered);
  for (int d = 0; d < num_kept; ++d) {
    const LoopDim& dim = kept[static_cast<size_t>(d)];
    plan.kept_shape.push_back(dim.size);
    plan.kept_input_strides.push_back(dim.input_stride);
    for (size_t i = 0; i < kMaxResults; ++i)
      plan.kept_output_strides[i].push_back(dim.output_strides[i]);
  }
  for (int d = 0; d < num_reduced; ++d) {
    plan.reduced_shape.push_back(reduced[static_cast<size_t>(d)].size);
    plan.reduced_strides.push_back(reduced[static_cast<size_t>(d)].input_stride);
  }
}

bool reduces_one(const Operand& input, const ReduceRequest& request) {
  for (size_t d = 0; d < input.sizes.size(); ++d) {
    if (request.dims[d] && input.sizes[d] != 1) return false;
  }
  return true;
}

// Whether the order of additions decides the bits: the loops of floating point collections.
bool collects_in_order(const ReducePlan& plan) {
  return !plan.op->reduction.ordered && !is_integral(plan.accumulate_dtype, true);
}

// Whether kernels can read the elements along `strides` where they are.
bool reads_in_place(const ReducePlan& plan, const Dims& strides) {
  return plan.input_dtype == plan.loaded_dtype && plan.element_dtype == plan.loaded_dtype &&
         !strides.empty() && strides[0] == element_size(plan.input_dtype);
}

// Whether short rows lie one after another and are few enough for registers.
bool is_dense(const ReducePlan& plan) {
  return plan.reduced >= kMinDense && plan.reduced <= kMaxDense && plan.reduced_shape.size() == 1 &&
         plan.kept_input_strides[0] == plan.reduced * plan.reduced_strides[0] &&
         collects_in_order(plan);
}

}  // namespace

void choose_form(ReducePlan& plan) {
  const auto speed = [](const Dims& strides) {
    return strides.empty() || strides[0] == 0 ? INT64_MAX : std::abs(strides[0]);
  };
  const bool kept_is_faster =
      !plan.kept_shape.empty() && speed(plan.kept_input_strides) < speed(plan.reduced_strides);
  const bool in_place =
      reads_in_place(plan, kept_is_faster ? plan.kept_input_strides : plan.reduced_strides);
  const bool light =
      in_place && plan.reduced_shape.size() == 1 && plan.op->cost <= 1 && collects_in_order(plan);
  const int64_t columns = plan.kept_shape.empty() ? 1 : plan.kept_shape[0];
  if (kept_is_faster) {
    plan.form = ReduceForm::outer;
  } else if (plan.reduced <= (light ? kShortInnerOfLight : kShortInner) && columns > 1) {
    plan.form = ReduceForm::short_inner;
  } else {
    plan.form = ReduceForm::inner;
  }
  plan.split = plan.reduced > kLeaf;
  plan.staged = !in_place || (plan.form == ReduceForm::short_inner && !is_dense(plan));
  plan.bytes = plan.outputs * plan.reduced * element_size(plan.input_dtype);
  for (int i = 0; i < plan.op->num_outputs; ++i)
    plan.bytes += plan.outputs * element_size(plan.output_dtypes[static_cast<size_t>(i)]);
}

DimSet reduced_dims(std::optional<std::span<const int64_t>> dims, int ndim, const OpInfo& op) {
  if (ndim > kMaxDims) {
    throw PlanError(PlanError::Kind::Runtime, op,
                    "expected at most 128 dims, got an operand with " + std::to_string(ndim));
  }
  DimSet all;
  for (int d = 0; d < ndim; ++d) all.set(static_cast<size_t>(d));
  if (!dims || (dims->empty() && !op.reduction.empty_is_none)) return all;
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

bool needs_elements(const OpInfo& op, double number) {
  const OfNothing of_nothing = op.reduction.of_nothing;
  return of_nothing == OfNothing::Error || of_nothing == OfNothing::IndexError ||
         (of_nothing == OfNothing::ErrorByOrder && number < 0) ||
         (of_nothing == OfNothing::ErrorByOrder && std::isinf(number));
}

void refuse_nothing(const OpInfo& op, bool dims_given, int dim) {
  const OfNothing of_nothing = op.reduction.of_nothing;
  const bool index =
      of_nothing == OfNothing::IndexError || (of_nothing == OfNothing::Error && dims_given);
  throw PlanError(index ? PlanError::Kind::Index : PlanError::Kind::Runtime, op,
                  "expected reduction dim " + std::to_string(dim) +
                      " to have non-zero size: there is no value for no elements");
}

void check_reduce_overlap(const Operands& operands, const OpInfo& op, int64_t reduced) {
  check_overlap(operands, op);
  for (int i = 0; i < operands.num_outputs; ++i) {
    const Operand& output = operands.output(i);
    if (output.output_kind == OutputKind::Given && output.data != nullptr && reduced > 1 &&
        overlap(output, operands.input(0)) == Overlap::Full) {
      throw PlanError(PlanError::Kind::Runtime, op,
                      "expected an output apart from the input, got the input itself");
    }
  }
}

void make_reduce_plan(const Operands& operands, const ReduceRequest& given, const OpInfo& op,
                      ReducePlan& plan) {
  const Operand& input = operands.input(0);
  ReduceRequest request = given;
  // Of one element, all norms but the number of nonzero ones are its absolute value, which neither
  // overflows nor underflows.
  if (op.reduction.schema == ReduceSchema::Order && given.number != 0 && reduces_one(input, given))
    request.number = 1;
  make_reduce_shape_plan(operands, request, op, plan);
  plan.number = request.number;
  for (int i = 0; i < operands.num_outputs; ++i) {
    const auto k = static_cast<size_t>(i);
    const bool given = operands.output(i).output_kind == OutputKind::Given;
    plan.output_dtypes[k] = given ? operands.output(i).dtype : plan.result_dtypes[k];
  }
  plan_dims(operands, plan);
  check_reduce_overlap(operands, op, plan.reduced);
  choose_form(plan);
}

}  // namespace iterlab
