// The pairwise tree over blocks and leaves of a reduction: Note [Same bits].
#pragma once

#include "engine/cpu/kernel_table.h"

#include <algorithm>
#include <cstring>

namespace iterlab::cpu {

// A row holds the states of a strip of outputs: at most this many bytes.
inline constexpr int64_t kRowBytes = 4096;

// Combines rows pairwise, as a binary counter carries: the row of a level stands for 2^level
// pushes. `kLevels`: enough for 2^kLevels pushes.
template <int kLevels>
class Cascade {
 public:
  Cascade(const ReduceTypeKernels& kernels, int64_t columns)
      : kernels_(kernels),
        bytes_(static_cast<size_t>(columns *
                                   (kernels.component_bytes[0] +
                                    (kernels.components > 1 ? kernels.component_bytes[1] : 0)))),
        columns_(columns) {}

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
    for (int level = 0; level < kLevels; ++level) {
      if ((pushed_ >> level & 1) == 0) continue;
      if (elements != 0) kernels_.combine(at(level), row, columns_, elements_[level], elements);
      std::memcpy(row, at(level), bytes_);
      elements += elements_[level];
    }
  }

 private:
  char* at(int level) { return rows_ + static_cast<size_t>(level) * bytes_; }

  const ReduceTypeKernels& kernels_;
  size_t bytes_;
  int64_t columns_;
  int64_t pushed_ = 0;
  int64_t elements_[kLevels];
  alignas(64) char rows_[kLevels * kRowBytes];
};

}  // namespace iterlab::cpu
