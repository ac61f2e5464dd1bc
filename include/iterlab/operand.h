// Operands: the tensors and numbers of one call, described without owning them.
#pragma once

#include "iterlab/dtype.h"
#include "iterlab/number.h"
#include "iterlab/promote.h"

#include <array>
#include <span>

namespace iterlab {

// Where an output comes from.
enum class OutputKind : uint8_t {
  Allocated,  // the call makes it, in the plan's layout
  Given,      // out=: resized where its shape differs, cast to where its dtype differs
  Inplace,    // the first input: neither resized nor broadcast
};

// The layout that a caller asks of a result.
enum class MemoryFormat : uint8_t { Preserve, Contiguous, ChannelsLast, ChannelsLast3d };

// One tensor of a call. `Int` is int64_t for real tensors and a symbolic integer for Meta. Sizes
// and strides are in elements and point into the tensor's own storage, which outlives the plan's
// making.
template <class Int>
struct BasicOperand {
  std::span<const Int> sizes;
  std::span<const Int> strides;
  DType dtype = DType::Undefined;
  bool is_wrapped_number = false;                  // a Python number, weakest in promotion
  OutputKind output_kind = OutputKind::Allocated;  // of outputs only
  const void* data = nullptr;  // null where there is none (Meta, plans made without tensors): no
                               // overlap checks then

  PromotionCategory category() const {
    if (!sizes.empty()) return PromotionCategory::Dimensioned;
    return is_wrapped_number ? PromotionCategory::WrappedNumber : PromotionCategory::ZeroDim;
  }
};

// All operands of one call: outputs first, then inputs, as in the plan.
template <class Int>
struct BasicOperands {
  std::array<BasicOperand<Int>, kMaxOperands> list;
  int num_outputs = 0;
  int num_inputs = 0;
  DType dtype_argument =
      DType::Undefined;  // the dtype that Promotion::ToArgument and reductions are given
  DType default_dtype = DType::Float;  // torch.get_default_dtype() of the calling thread

  bool rounds = false;  // the operator's rounding parameter is not its first choice
  MemoryFormat memory_format = MemoryFormat::Preserve;  // of operators that preserve strides
  bool output_is_input = false;  // a given output is one of the inputs: not resized

  int size() const { return num_outputs + num_inputs; }
  BasicOperand<Int>& output(int i) { return list[static_cast<size_t>(i)]; }
  const BasicOperand<Int>& output(int i) const { return list[static_cast<size_t>(i)]; }
  BasicOperand<Int>& input(int i) { return list[static_cast<size_t>(num_outputs + i)]; }
  const BasicOperand<Int>& input(int i) const { return list[static_cast<size_t>(num_outputs + i)]; }
  const BasicOperand<Int>& operator[](int i) const { return list[static_cast<size_t>(i)]; }
};

using Operand = BasicOperand<int64_t>;
using Operands = BasicOperands<int64_t>;

}  // namespace iterlab
