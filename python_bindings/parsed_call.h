// Calls of any kind through torch's own argument parser.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/utils/python_arg_parser.h>

#include <string>
#include <vector>

namespace iterlab {

class ParsedCall {
 public:
  // Of all overloads of "iterlab::" + name.
  explicit ParsedCall(const std::string& name);

  // The result as a new reference. Raises what torch's parser raises, and what the operator does.
  PyObject* call(PyObject* const* args, Py_ssize_t count, PyObject* keywords);

  // "add(input, other, *, alpha=1, out=None)", of the first overload.
  std::string text_signature() const;

  // What __torch_function__ is told was called.
  void set_function(PyObject* function) { function_ = function; }

 private:
  struct Overload {
    c10::OperatorHandle op;                  // what computes a new result, or writes in place
    std::optional<c10::OperatorHandle> out;  // the same with out=
    PyTypeObject* tuple_type = nullptr;      // of several results, with names
  };

  static std::vector<Overload> find_overloads(const std::string& name);
  static std::vector<std::string> signatures(const std::string& name,
                                             const std::vector<Overload>& overloads);
  const Overload& chosen(torch::PythonArgs& parsed) const;
  PyObject* run(torch::PythonArgs& parsed) const;
  static PyObject* wrap(const Overload& overload, torch::jit::Stack& results);

  std::string name_;
  std::vector<Overload> overloads_;
  torch::PythonArgParser parser_;
  PyObject* function_ = nullptr;
};

}  // namespace iterlab
