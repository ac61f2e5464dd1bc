// A named range on a profiler's timeline, for the time of a scope.
#pragma once

#include "engine/kernel_table.h"

#include <ATen/record_function.h>

#include <optional>
#include <string>

namespace iterlab {

// Note [Ranges]
// Inside the operator's own row, a timeline shows what planning took and which loop ran:
// "iterlab::plan", then "iterlab::add [tiled avx2]". The name is of the plan that the loop was
// given, so a profile reports the path that ran. Where nobody records, a range is one look at a
// thread-local pointer.
class ProfilerRange {
 public:
  template <class MakeName>
  explicit ProfilerRange(MakeName&& make_name) {
    if (auto callbacks = at::getStepCallbacksUnlessEmpty(at::RecordScope::FUNCTION)) [[unlikely]] {
      range_.emplace(std::move(*callbacks));
      range_->before(std::string(make_name()));
    }
  }

 private:
  std::optional<at::RecordFunction> range_;
};

inline std::string plan_range() { return "iterlab::plan"; }

inline std::string loop_range(const char* op, const char* loop) {
  return std::string("iterlab::") + op + " [" + loop + ' ' + cpu_capability() + ']';
}

}  // namespace iterlab
