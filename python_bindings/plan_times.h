// How long the stages of planning take, for `iterlab bench --overhead`.
#pragma once

#include "iterlab/op.h"
#include "iterlab/operand.h"

#include <string>
#include <utility>
#include <vector>

namespace iterlab {

// Nanoseconds of each stage of make_plan, in its order, and of all of it ("plan"): the mean of
// `calls` calls. Plain operands have no stages.
std::vector<std::pair<std::string, double>> plan_times(const Operands& operands, const OpInfo& op,
                                                       int calls);

}  // namespace iterlab
