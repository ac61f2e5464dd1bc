// The operators of this build, as data.
#pragma once

#include "iterlab/op.h"

#include <span>
#include <string_view>

namespace iterlab {

// All operators: elementwise ones first, then reductions, each in the order of the kernel tables.
std::span<const OpInfo> op_table();

// The operator of that name, or null.
const OpInfo* find_op(std::string_view name);

// Position in the kernel table of its kind.
int kernel_index(const OpInfo& op);

}  // namespace iterlab
