// Dim order: which dim of a call is fastest, and the strides that its outputs get.
#pragma once

#include "engine/broadcast.h"

#include <algorithm>
#include <array>

namespace iterlab {

template <class Int>
bool is_contiguous(std::span<const Int> sizes, std::span<const Int> strides) {
  using Query = SizeQuery<Int>;
  Int expected(1);
  bool contiguous = true, empty = false;
  for (size_t d = sizes.size(); d-- > 0;) {
    empty = empty || Query::equal(sizes[d], Int(0));
    if (Query::equal(sizes[d], Int(1))) continue;
    contiguous = contiguous && Query::equal(strides[d], expected);
    expected = expected * sizes[d];
  }
  return contiguous || empty;
}

// Whether strides are those of torch.channels_last: 4-D, fastest to slowest C, W, H, N. Size-1 dims
// may have any stride.
template <class Int>
bool is_channels_last(std::span<const Int> sizes, std::span<const Int> strides) {
  using Query = SizeQuery<Int>;
  if (sizes.size() != 4) return false;
  Int expected(1);
  for (size_t d : {1u, 3u, 2u, 0u}) {
    if (Query::equal(sizes[d], Int(1))) continue;
    if (!Query::equal(strides[d], expected)) return false;
    expected = expected * sizes[d];
  }
  return true;
}

// Whether the elements fill one run of memory, each address once, in any dim order.
template <class Int>
bool is_dense(std::span<const Int> sizes, std::span<const Int> strides) {
  using Query = SizeQuery<Int>;
  std::array<bool, kMaxDims> used{};
  Int expected(1);
  for (size_t round = 0; round < sizes.size(); ++round) {
    bool found = false;
    for (size_t d = 0; d < sizes.size() && !found; ++d) {
      if (used[d]) continue;
      if (Query::less(sizes[d], Int(2))) {
        used[d] = found = true;
      } else if (Query::equal(strides[d], expected)) {
        used[d] = found = true;
        expected = expected * sizes[d];
      }
    }
    if (!found) return false;
  }
  return true;
}

template <class Int>
void contiguous_strides(const DimsOf<Int>& shape, DimsOf<Int>& strides) {
  strides.resize(shape.size());
  Int stride(1);
  for (int d = static_cast<int>(shape.size()) - 1; d >= 0; --d) {
    strides[d] = stride;
    stride = stride * SizeQuery<Int>::at_least_one(shape[d]);
  }
}

// The stride of `operand` along dim `d` of the broadcast shape: 0 where it is broadcast.
template <class Int>
Int broadcast_stride(const BasicOperand<Int>& operand, const DimsOf<Int>& shape, int d) {
  using Query = SizeQuery<Int>;
  const int own = d - (static_cast<int>(shape.size()) - static_cast<int>(operand.sizes.size()));
  if (own < 0) return Int(0);
  const auto i = static_cast<size_t>(own);
  if (Query::equal(operand.sizes[i], Int(1)) && !Query::equal(shape[d], Int(1))) return Int(0);
  return operand.strides[i];
}

// Note [Dim order]
// Dims are sorted by stride, fastest first, by asking the operands in turn (given outputs before
// inputs): the first operand that has different nonzero strides for two dims decides; an operand
// that is broadcast along either has no opinion; with equal strides, the longer dim goes to the
// outside; if nobody decides, the dims keep their order. The sort is an insertion sort because the
// relation is not transitive, and the result is what ATen's TensorIterator gets: outputs inherit
// their layout from it, so it is a contract and not a choice.
template <class Int>
int compare_dims(const BasicOperands<Int>& operands, uint32_t ordering, const DimsOf<Int>& shape,
                 int a, int b) {
  using Query = SizeQuery<Int>;
  for (int i = 0; i < operands.size(); ++i) {
    if ((ordering >> i & 1u) == 0) continue;
    const Int stride_a = broadcast_stride(operands[i], shape, a);
    const Int stride_b = broadcast_stride(operands[i], shape, b);
    if (Query::equal(stride_a, Int(0)) || Query::equal(stride_b, Int(0))) continue;
    if (Query::less(stride_a, stride_b)) return -1;
    if (Query::less(stride_b, stride_a)) return 1;
    if (Query::less(shape[b], shape[a])) return 1;
  }
  return 0;
}

// Fills `permutation`, fastest dim first. `ordering` has bit i set for operands whose strides
// count.
template <class Int>
void order_dims(const BasicOperands<Int>& operands, uint32_t ordering, const DimsOf<Int>& shape,
                Dims& permutation) {
  const int ndim = static_cast<int>(shape.size());
  permutation.resize(ndim);
  for (int i = 0; i < ndim; ++i) permutation[i] = ndim - 1 - i;
  for (int i = 1; i < ndim; ++i) {
    int moving = i;
    for (int before = i - 1; before >= 0; --before) {
      const int order =
          compare_dims(operands, ordering, shape, static_cast<int>(permutation[before]),
                       static_cast<int>(permutation[moving]));
      if (order < 0) break;
      if (order > 0) {
        std::swap(permutation[before], permutation[moving]);
        moving = before;
      }
    }
  }
}

// Strides of a dense tensor whose dims are nested as `permutation` says.
template <class Int>
void strides_from_order(const DimsOf<Int>& shape, const Dims& permutation, DimsOf<Int>& strides) {
  const int ndim = static_cast<int>(shape.size());
  bool descending = true;
  for (int i = 0; i < ndim; ++i) descending = descending && permutation[i] == ndim - 1 - i;
  if (descending) return contiguous_strides<Int>(shape, strides);
  strides.resize(shape.size());
  Int stride(1);
  for (int i = 0; i < ndim; ++i) {
    const auto d = static_cast<int>(permutation[i]);
    strides[d] = stride;
    stride = stride * shape[d];
  }
}

// Strides of a memory format. Sizes are as in torch: channels_last is of 4-D shapes,
// channels_last_3d of 5-D ones.
template <class Int>
void strides_of_format(MemoryFormat format, const OpInfo& op, const DimsOf<Int>& shape,
                       DimsOf<Int>& strides) {
  if (format == MemoryFormat::Contiguous) return contiguous_strides<Int>(shape, strides);
  const Dims order = format == MemoryFormat::ChannelsLast ? Dims{1, 3, 2, 0} : Dims{1, 4, 3, 2, 0};
  if (static_cast<int>(shape.size()) != order.size()) {
    throw PlanError(PlanError::Kind::Runtime, op,
                    "expected a tensor with " + std::to_string(order.size()) +
                        " dims for this memory format, got one with " +
                        std::to_string(shape.size()));
  }
  strides.resize(shape.size());
  Int stride(1);
  for (int64_t d : order) {
    strides[static_cast<int>(d)] = stride;
    stride = stride * shape[static_cast<int>(d)];
  }
}

template <class Int>
bool is_expanded(const BasicOperand<Int>& operand) {
  using Query = SizeQuery<Int>;
  for (size_t d = 0; d < operand.sizes.size(); ++d) {
    if (Query::equal(operand.strides[d], Int(0)) && !Query::equal(operand.sizes[d], Int(1)))
      return true;
  }
  return false;
}

// Note [Preserved strides]
// What torch's `empty_like` and `to` do: a dense tensor's strides are taken as they are, those of
// size-1 dims too; another one's order of dims is kept. `copy` takes all strides, for it stands for
// a tensor that was written in place; but not those of elements that share memory.
template <class Int>
bool preserve_layout(const BasicOperands<Int>& operands, const OpInfo& op,
                     BasicShapePlan<Int>& plan) {
  const auto& input = operands.input(0);
  if (!same_sizes(input.sizes, plan.shape)) return false;
  const bool empty = std::any_of(input.sizes.begin(), input.sizes.end(), [](const Int& size) {
    return SizeQuery<Int>::equal(size, Int(0));
  });
  const auto dense = [&](std::span<const Int> strides) {
    return empty || is_contiguous(input.sizes, strides) || is_dense(input.sizes, strides);
  };
  if (operands.memory_format != MemoryFormat::Preserve) {
    strides_of_format<Int>(operands.memory_format, op, plan.shape, plan.output_strides);
  } else if (dense(input.strides) || (op.preserves_gaps && !is_expanded(input))) {
    plan.output_strides.resize(plan.shape.size());
    std::copy(input.strides.begin(), input.strides.end(), plan.output_strides.begin());
  } else {
    return false;
  }
  const std::span<const Int> strides(plan.output_strides.data(), input.strides.size());
  plan.same_layout =
      operands.num_inputs == 1 && same_sizes(input.strides, plan.output_strides) && dense(strides);
  if (plan.same_layout) return true;
  BasicOperands<Int> planned = operands;
  planned.output(0).sizes = input.sizes;
  planned.output(0).strides = strides;
  order_dims(planned, (1u << operands.size()) - 1, plan.shape, plan.permutation);
  return true;
}

// Chooses dim order and output strides, and finds out whether all operands share one dense layout.
template <class Int>
void plan_layout(const BasicOperands<Int>& operands, const OpInfo& op, BasicShapePlan<Int>& plan) {
  if (op.preserves_strides && operands.output(0).output_kind == OutputKind::Allocated &&
      preserve_layout(operands, op, plan))
    return;
  uint32_t ordering = 0;  // operands that exist and keep their shape
  bool same_shape = true;
  for (int i = 0; i < operands.size(); ++i) {
    const bool is_output = i < operands.num_outputs;
    if (is_output &&
        (operands[i].output_kind == OutputKind::Allocated || (plan.resized_outputs >> i & 1u)))
      continue;
    ordering |= 1u << i;
    same_shape = same_shape && same_sizes(operands[i].sizes, plan.shape);
  }
  if (same_shape) {
    bool contiguous = true, channels_last = true, equal_and_dense = true;
    const BasicOperand<Int>* last = nullptr;
    for (int i = operands.size() - 1; i >= 0; --i) {
      if ((ordering >> i & 1u) == 0) continue;
      const auto& operand = operands[i];
      contiguous = contiguous && is_contiguous(operand.sizes, operand.strides);
      channels_last = channels_last && is_channels_last(operand.sizes, operand.strides);
      equal_and_dense =
          equal_and_dense && (last == nullptr ? is_dense(operand.sizes, operand.strides)
                                              : same_sizes(last->strides, operand.strides));
      last = &operand;
    }
    plan.same_layout = contiguous || channels_last || equal_and_dense;
    if (contiguous) {
      contiguous_strides<Int>(plan.shape, plan.output_strides);
      return;
    }
    if (channels_last) {
      strides_from_order<Int>(plan.shape, Dims{1, 3, 2, 0}, plan.output_strides);
      return;
    }
    if (equal_and_dense) {
      plan.output_strides.resize(plan.shape.size());
      std::copy(last->strides.begin(), last->strides.end(), plan.output_strides.begin());
      return;
    }
  }
  order_dims(operands, ordering, plan.shape, plan.permutation);
  strides_from_order<Int>(plan.shape, plan.permutation, plan.output_strides);
}

}  // namespace iterlab
