// The lane of plain calls: tensors and numbers by position, numbers by keyword, out=.
#pragma once

#include <Python.h>

#include <memory>
#include <string>

namespace iterlab {

class CallLane {
 public:
  virtual ~CallLane() = default;
  // The result as a new reference, or null where the call is not plain; never with an error set.
  virtual PyObject* call(PyObject* const* args, Py_ssize_t count, PyObject* keywords) const = 0;
};

// Whose calls a lane takes: those of iterlab's function, with numbers for tensors and out=, or
// those of the dispatcher's default overload alone.
enum class LaneOf { Function, Overload };

// The lane of an operator by its name ("add", "add_"); null where its schema is not one of tensors
// and numbers alone.
std::unique_ptr<CallLane> make_lane(const std::string& name, LaneOf door);

}  // namespace iterlab
