// The pairwise tree over blocks and leaves of a reduction: Note [Same bits].
#pragma once

#include "engine/cpu/kernel_table.h"

#include <cstring>
#include <vector>

namespace iterlab::cpu {

inline constexpr int kMaxLevels = 48;  // 2^48 pushes

// Combines rows of states pairwise, as a binary counter carries: the row of a level stands for
// 2^level pushes. Its memory is the caller's, so that it is allocated once for many strips.
class Cascade {
 public:
  Cascade(const ReduceTypeKernels& kernels, int64_t columns, std::vector<char>& rows)
      : kernels_(kernels),
        bytes_(static_cast<size_t>(columns * state_bytes(kernels))),
        columns_(columns),
        rows_(rows) {}

  // `row` stands for `elements` of each output, after those that were pushed before.
  void push(char* row, int64_t elements) {
    int level = 0;
    for (; (pushed_ >> level & 1) != 0; ++level) {
      kernels_.combine(at(level), row, columns_, elements_[level], elements);
      std::memcpy(row, at(level), bytes_);
      elements += elements_[level];
    }
    std::memcpy(at(level), row, bytes_);
    elements_[level] = elements;
    ++pushed_;
  }

  // The combination of all rows; at least one was pushed.
  void finish(char* row) {
    int64_t elements = 0;
    for (int level = 0; pushed_ >> level != 0; ++level) {
      if ((pushed_ >> level & 1) == 0) continue;
      if (elements != 0) kernels_.combine(at(level), row, columns_, elements_[level], elements);
      std::memcpy(row, at(level), bytes_);
      elements += elements_[level];
    }
  }

 private:
  char* at(int level) {
    const size_t end = static_cast<size_t>(level + 1) * bytes_;
    if (rows_.size() < end) rows_.resize(end);
    return rows_.data() + end - bytes_;
  }

  const ReduceTypeKernels& kernels_;
  size_t bytes_;
  int64_t columns_;
  std::vector<char>& rows_;
  int64_t pushed_ = 0;
  int64_t elements_[kMaxLevels];
};

}  // namespace iterlab::cpu
