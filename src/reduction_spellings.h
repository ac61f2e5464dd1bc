// Other spellings of a reduction's arguments, as torch has them.
#pragma once

#include "iterlab/op.h"

#include <torch/library.h>

namespace iterlab {

// Defines the overloads of a reduction, which is registered already, that take `unbiased` for
// `correction`, and `ord` or the name of a norm for `p`.
void register_spellings(torch::Library& library, const OpInfo& op);

}  // namespace iterlab
