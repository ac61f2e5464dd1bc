// ATen's own kernel of an overload that is overridden, and which calls are left to it.
#pragma once

#include "iterlab/dtype.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/boxing/impl/boxing.h>
#include <ATen/core/dispatch/Dispatcher.h>

namespace iterlab {

// Note [Falling back to ATen]
// A call that iterlab does not take (a dtype that the operator lacks, operands that do not
// broadcast) goes to the kernel that was there before, which computes it or raises ATen's own
// error. Nothing has been touched then. So do calls in which iterlab takes more than ATen, or
// differs: lazily conjugated and negated operands, tensors that stand for zeros and have no memory,
// dtypes that few of ATen's kernels have, and out= of another dtype than the result's, which many
// refuse.
struct Original {
  c10::OperatorHandle op;
  c10::SafeKernelFunction kernel;

  template <class Result, class... Args>
  Result call(c10::DispatchKeySet keys, Args... args) const {
    torch::jit::Stack stack = c10::impl::boxArgs<Args...>(args...);
    kernel.callBoxed(op, keys, &stack);
    return stack.at(0).toTensor();
  }
};

inline constexpr DTypeSet kUsualDTypes = kBool | kSigned | DTypeSet{DType::Byte} | kFloating |
                                         DTypeSet{DType::ComplexFloat, DType::ComplexDouble};

// Whether a tensor is one that iterlab takes in ATen's place, or it is another argument.
inline bool is_usual(const at::Tensor& tensor, DTypeSet refused) {
  constexpr c10::DispatchKeySet lazy(
      {c10::DispatchKey::Conjugate, c10::DispatchKey::Negative, c10::DispatchKey::ZeroTensor});
  const DType dtype = tensor.scalar_type();
  return !tensor.key_set().has_any(lazy) && kUsualDTypes.contains(dtype) &&
         !refused.contains(dtype);
}
inline bool is_usual(const std::optional<at::Tensor>& tensor, DTypeSet refused) {
  return !tensor || is_usual(*tensor, refused);
}
template <class Other>
bool is_usual(const Other&, DTypeSet) {
  return true;
}

}  // namespace iterlab
