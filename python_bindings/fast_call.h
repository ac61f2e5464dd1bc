// The fast door: every operator as a C function of Python.
#pragma once

#include <pybind11/pybind11.h>

namespace iterlab {

// Adds `functions()` to the module: a dict of builtin functions by name, "add" and "add_".
void bind_fast_calls(pybind11::module_& module);

}  // namespace iterlab
