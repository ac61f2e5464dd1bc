// Every operator as a C function: arguments are bound by hand where they are plain, by torch's own
// parser where they are not, and go to the dispatcher, so that autograd, modes and the profiler see
// the call.
#include "python_bindings/fast_call.h"

#include "engine/op_table.h"
#include "python_bindings/call_lane.h"
#include "python_bindings/parsed_call.h"
#include "python_bindings/quick_overload.h"
#include "src/composites.h"

#include <ATen/PythonTorchFunctionTLS.h>
#include <torch/csrc/Exceptions.h>

#include <map>

namespace py = pybind11;

namespace iterlab {
namespace {

// What a builtin function holds as its __self__.
struct FunctionObject {
  PyObject_HEAD ParsedCall* parsed;
  CallLane* lane;  // null where only the parser will do
  PyMethodDef method;
};

// Note [Two ways in]
// The lane takes a call whose operands are plain tensors and numbers, with no keyword that needs
// interpretation, while no __torch_function__ mode is on. Everything else, errors included, goes
// through torch's parser: overloaded operands, numpy's argument names, dims and dtypes.
PyObject* call(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* keywords) {
  HANDLE_TH_ERRORS
  const auto* const function = reinterpret_cast<FunctionObject*>(self);
  if (function->lane != nullptr && !at::impl::torch_function_mode_enabled()) {
    PyObject* const result = function->lane->call(args, count, keywords);
    if (result != nullptr) return result;
  }
  return function->parsed->call(args, count, keywords);
  END_HANDLE_TH_ERRORS
}

// Pickle looks a builtin function up in its __self__: iterlab has it by name.
PyObject* reduce(PyObject*, PyObject*) {
  const py::object import_module = py::module_::import("importlib").attr("import_module");
  return py::make_tuple(import_module, py::make_tuple("iterlab")).release().ptr();
}

PyTypeObject* function_type() {
  static PyMethodDef methods[] = {{"__reduce__", reduce, METH_NOARGS, nullptr}, {}};
  static PyType_Slot slots[] = {{Py_tp_methods, methods}, {0, nullptr}};
  static PyType_Spec spec = {"iterlab._C.Operator", sizeof(FunctionObject), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
  static PyObject* const type = PyType_FromSpec(&spec);
  return reinterpret_cast<PyTypeObject*>(type);
}

// Every operator, composites among them, and every in-place one, with what its documentation says.
// max and min have two schemas, and with them two definitions.
std::map<std::string, std::string> documented_names() {
  std::map<std::string, std::string> docs;
  for (const OpInfo& op : op_table()) {
    std::string& doc = docs[op.name];
    doc += (doc.empty() ? "" : "\n\n") + std::string(op.doc);
    if ((op.variants & kInplace) != 0) docs[std::string(op.name) + "_"] = op.doc;
  }
  for (const CompositeInfo& op : composite_table()) {
    docs[op.name] = op.doc;
    if (op.has_inplace) docs[std::string(op.name) + "_"] = op.doc;
  }
  return docs;
}

// Functions live as long as the process, and so does what they hold.
py::object make_function(const std::string& name, const std::string& doc) {
  auto* const object = PyObject_New(FunctionObject, function_type());
  if (object == nullptr) throw py::error_already_set();
  object->parsed = new ParsedCall(name);
  object->lane = make_lane(name, LaneOf::Function).release();
  auto* const text = new std::string(object->parsed->text_signature() + "\n--\n\n" + doc);
  object->method = {(new std::string(name))->c_str(),
                    reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(&call)),
                    METH_FASTCALL | METH_KEYWORDS, text->c_str()};
  const py::str module("iterlab");
  auto function = py::reinterpret_steal<py::object>(
      PyCFunction_NewEx(&object->method, reinterpret_cast<PyObject*>(object), module.ptr()));
  Py_DECREF(object);
  if (!function) throw py::error_already_set();
  object->parsed->set_function(function.ptr());
  return function;
}

}  // namespace

void bind_fast_calls(py::module_& module) {
  module.def(
      "make_functions",
      [] {
        py::dict functions;
        for (const auto& [name, doc] : documented_names())
          functions[name.c_str()] = make_function(name, doc);
        return functions;
      },
      "Makes a function for every operator and every in-place one, by name.");
  bind_quick_overloads(module);
}

}  // namespace iterlab
