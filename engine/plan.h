// Making a plan: the planner's one entry, and the switch that forces a path.
#pragma once

#include "iterlab/operand.h"
#include "iterlab/plan.h"

#include <optional>

namespace iterlab {

// Plans an elementwise call. Throws PlanError for every user error; no data is touched.
// `plan` is written in place: it is large and mostly unused, so it is neither cleared nor copied.
void make_plan(const Operands& operands, const OpInfo& op, Plan& plan);

// Whether the operands have a plan that is known at once. Note [Plain operands]
bool are_plain(const Operands& operands, const OpInfo& op);

// The path that plans of the calling thread must take, where it is legal for them.
std::optional<Path> forced_path();
void set_forced_path(std::optional<Path> path);

}  // namespace iterlab
