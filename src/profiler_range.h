// A named range on a profiler's timeline, for the time of a scope.
#pragma once

#include "engine/kernel_table.h"

#include <ATen/record_function.h>

#include <memory>
#include <string>

namespace iterlab {

// Note [Ranges]
// Inside the operator's own row, a timeline shows what planning took and which loop ran:
// "iterlab::plan", then "iterlab::add [tiled avx2]". The name is of the plan that the loop was
// given, so a profile reports the path that ran. On CUDA the kernels have names of their own. A
// call asks once whether anybody records, and its ranges do nothing else where nobody does: 86
// instructions of the 2,003 that an add of 16 elements takes below the dispatcher (callgrind).
inline bool is_recorded() {
  return at::getStepCallbacksUnlessEmpty(at::RecordScope::FUNCTION).has_value();
}

class ProfilerRange {
 public:
  template <class MakeName>
  ProfilerRange(bool recorded, MakeName&& make_name) {
    if (recorded) [[unlikely]]
      begin(make_name());
  }

 private:
  [[gnu::noinline, gnu::cold]] void begin(std::string name) {
    range_ = std::make_unique<at::RecordFunction>(at::RecordScope::FUNCTION);
    if (range_->isActive()) range_->before(std::move(name));
  }

  std::unique_ptr<at::RecordFunction> range_;
};

inline std::string plan_range() { return "iterlab::plan"; }

inline std::string loop_range(const char* op, const char* loop) {
  return std::string("iterlab::") + op + " [" + loop + ' ' + cpu_capability() + ']';
}

}  // namespace iterlab
