// torch's warnings of calls that are computed all the same.
#pragma once

#include "iterlab/dtype.h"
#include "iterlab/reduce_plan.h"
#include "src/call.h"

#include <c10/util/Exception.h>

namespace iterlab {

// Complex values that are read or written as real ones: at most once, unless torch is set to warn
// always.
inline void warn_of_lost_imaginary_parts(DType from, DType to) {
  if (is_complex(from) && !is_complex(to) && to != DType::Bool) {
    TORCH_WARN_ONCE("Casting complex values to real discards the imaginary part");
  }
}

// Of an elementwise call. What moves values reads them at the common dtype, which is not its
// operands' alone. What compares complex values writes its answers at their dtype in ATen, before
// they are cast to an output of another one.
inline void warn_of_lost_imaginary_parts(const OpInfo& op, const Arguments& arguments,
                                         DType common_dtype, Output output) {
  if (op.moves_bits) {
    for (int i = 0; i < arguments.num_tensors; ++i)
      warn_of_lost_imaginary_parts(arguments.tensors[i]->scalar_type(), common_dtype);
  } else if (op.promotion == Promotion::AlwaysBool && output.tensor != nullptr) {
    warn_of_lost_imaginary_parts(common_dtype, output.tensor->scalar_type());
  }
}

// A condition in uint8: at most once, as above.
inline void warn_of_uint8_conditions(const OpInfo& op, const Arguments& arguments) {
  for (int i = 0; op.bool_inputs >> i != 0; ++i) {
    if ((op.bool_inputs >> i & 1u) == 0 || arguments.tensors[i]->scalar_type() != DType::Byte)
      continue;
    TORCH_WARN_ONCE(op.name, " received a uint8 ", op.inputs[static_cast<size_t>(i)],
                    " tensor. This behavior is deprecated and will be removed in a future version "
                    "of PyTorch. Use a boolean condition instead.");
  }
}

// A variance of as few elements as its correction, or fewer: every time.
inline void warn_of_degrees_of_freedom(const ReducePlan& plan, int64_t elements,
                                       double correction) {
  if (plan.op->reduction.schema != ReduceSchema::Correction) return;
  const int64_t reduced = plan.outputs == 0 ? 0 : elements / plan.outputs;
  if (static_cast<double>(reduced) - correction <= 0) {
    TORCH_WARN(plan.op->name,
               "(): degrees of freedom is <= 0. Correction should be strictly less than the "
               "reduction factor (input numel divided by output numel).");
  }
}

}  // namespace iterlab
