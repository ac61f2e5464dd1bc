// A shorter way through torch.ops: what an OpOverload calls.
#pragma once

#include <pybind11/pybind11.h>

namespace iterlab {

// Adds `quick_overload(name, original)` to the module: a callable for the default overload of an
// operator that takes plain calls itself and leaves the others to `original`; None where the
// operator has no lane.
void bind_quick_overloads(pybind11::module_& module);

}  // namespace iterlab
