// From the arguments of any launch to those of one kernel.
#pragma once

#include "engine/cuda/arguments.h"

#include <cstddef>
#include <cstring>

namespace iterlab::cuda {

// The arguments of any launch, before they are packed. Note [Arguments]
using Nested = Arguments<kMaxOperands, kMaxParameters + 1, kMaxLoopDims>;

constexpr size_t aligned_to(size_t offset, size_t boundary) {
  return (offset + boundary - 1) / boundary * boundary;
}

// Brings them to the layout of Arguments<n, p, d>, in place: each part moves towards the front.
inline void pack(Nested& args, int n, int p, int d) {
  auto* const start = reinterpret_cast<char*>(&args);
  char* to = reinterpret_cast<char*>(args.operands + n);
  const auto put = [&](const void* from, size_t bytes, size_t boundary) {
    to = start + aligned_to(static_cast<size_t>(to - start), boundary);
    std::memmove(to, from, bytes);
    to += bytes;
  };
  put(&args.parameters, offsetof(Parameters<1>, slots) + static_cast<size_t>(p) * sizeof(Slot), 16);
  put(&args.row_divider, offsetof(Nested, dividers) - offsetof(Nested, row_divider), 16);
  put(args.dividers, static_cast<size_t>(d) * sizeof(Divider), alignof(Divider));
  for (int i = 0; i < n; ++i)
    put(args.strides[i], static_cast<size_t>(d) * sizeof(int64_t), alignof(int64_t));
  put(args.rooms, static_cast<size_t>(n) * sizeof(int32_t), alignof(int32_t));
}

// That the layout is the compiler's, for some n, p, d.
template <int N, int P, int D>
constexpr bool packs_as_kernels_read() {
  using A = Arguments<N, P, D>;
  constexpr size_t shared = offsetof(Nested, dividers) - offsetof(Nested, row_divider);
  constexpr size_t parameters = offsetof(Nested, operands) + N * sizeof(KernelOperand);
  constexpr size_t rest = parameters + offsetof(Parameters<1>, slots) + P * sizeof(Slot);
  return offsetof(A, parameters) == parameters && offsetof(A, row_divider) == rest &&
         offsetof(A, dividers) == rest + shared &&
         offsetof(A, strides) == aligned_to(rest + shared + D * sizeof(Divider), 8) &&
         offsetof(A, rooms) == offsetof(A, strides) + N * D * sizeof(int64_t);
}
static_assert(packs_as_kernels_read<2, 1, kMaxRowDims>() &&
              packs_as_kernels_read<3, 2, kMaxLoopDims>());

}  // namespace iterlab::cuda
