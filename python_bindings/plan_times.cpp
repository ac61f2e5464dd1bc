// Times the stages of make_plan, one by one.
#include "python_bindings/plan_times.h"

#include "engine/overlap.h"
#include "engine/plan.h"
#include "engine/shape_plan.h"

#include <chrono>

namespace iterlab {
namespace {

// Nanoseconds a call, of a call whose effect on `plan` the compiler must keep.
template <class Stage>
double nanoseconds(int calls, Plan& plan, const Stage& stage) {
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < calls; ++i) {
    stage();
    asm volatile("" : : "r"(&plan) : "memory");
  }
  const std::chrono::duration<double, std::nano> spent = std::chrono::steady_clock::now() - start;
  return spent.count() / calls;
}

}  // namespace

std::vector<std::pair<std::string, double>> plan_times(const Operands& operands, const OpInfo& op,
                                                       int calls) {
  std::vector<std::pair<std::string, double>> times;
  Plan plan;
  const auto time = [&](const char* stage, const auto& fn) {
    times.emplace_back(stage, nanoseconds(calls, plan, fn));
  };
  const auto make = [&] {
    Plan fresh;
    make_plan(operands, op, fresh);
    asm volatile("" : : "r"(&fresh) : "memory");
  };
  if (!are_plain(operands, op)) {
    make_plan(operands, op, plan);
    time("broadcast", [&] { broadcast_inputs(operands, op, plan.shape); });
    time("dtypes", [&] { plan_dtypes(operands, op, plan); });
    time("layout", [&] {
      inspect_outputs(operands, op, plan);
      plan_layout(operands, op, plan);
    });
    time("overlap", [&] { check_overlap(operands, op); });
  }
  const double whole = nanoseconds(calls, plan, make);
  if (!times.empty()) {  // the dims, their order and the path are what is left of the whole
    double left = whole;
    for (const auto& [stage, one] : times) left -= one;
    times.emplace_back("loop", left);
  }
  times.emplace_back("plan", whole);
  return times;
}

}  // namespace iterlab
