// A shorter way through torch.ops: plain calls enter the dispatcher without a stack.
#include "python_bindings/quick_overload.h"

#include "python_bindings/call_lane.h"

#include <ATen/PythonTorchFunctionTLS.h>
#include <torch/csrc/Exceptions.h>

#include <cstddef>
#include <structmember.h>

namespace py = pybind11;

namespace iterlab {
namespace {

// Note [A shorter way through torch.ops]
// `torch.ops.iterlab.add.default(x, y)` goes through a callable that OpOverload holds, which boxes
// the arguments by the schema, copies tensors to a stack (Note [No copies of tensors]) and unboxes
// them again: three quarters of a small call. This one takes calls of plain tensors and numbers and
// enters the dispatcher with them as they are; every other call goes to the callable that was
// there.
struct QuickOverload {
  PyObject_HEAD vectorcallfunc vectorcall;
  CallLane* lane;
  PyObject* original;
};

PyObject* call_overload(PyObject* self, PyObject* const* args, size_t flags, PyObject* keywords) {
  HANDLE_TH_ERRORS
  const auto* const quick = reinterpret_cast<QuickOverload*>(self);
  if (!at::impl::torch_function_mode_enabled()) {
    PyObject* const result = quick->lane->call(args, PyVectorcall_NARGS(flags), keywords);
    if (result != nullptr) return result;
  }
  return PyObject_Vectorcall(quick->original, args, flags, keywords);
  END_HANDLE_TH_ERRORS
}

// An OpOverload's hash is that of its callable: the same as before.
Py_hash_t hash(PyObject* self) {
  return PyObject_Hash(reinterpret_cast<QuickOverload*>(self)->original);
}

PyObject* attribute(PyObject* self, PyObject* name) {
  PyObject* const own = PyObject_GenericGetAttr(self, name);
  if (own != nullptr || !PyErr_ExceptionMatches(PyExc_AttributeError)) return own;
  PyErr_Clear();
  return PyObject_GetAttr(reinterpret_cast<QuickOverload*>(self)->original, name);
}

PyTypeObject* quick_type() {
  static PyMemberDef members[] = {
      {"__vectorcalloffset__", T_PYSSIZET, offsetof(QuickOverload, vectorcall), READONLY, nullptr},
      {"original", T_OBJECT, offsetof(QuickOverload, original), READONLY,
       "What takes the calls that are not plain."},
      {nullptr, 0, 0, 0, nullptr}};
  static PyType_Slot slots[] = {{Py_tp_call, reinterpret_cast<void*>(&PyVectorcall_Call)},
                                {Py_tp_hash, reinterpret_cast<void*>(&hash)},
                                {Py_tp_getattro, reinterpret_cast<void*>(&attribute)},
                                {Py_tp_members, members},
                                {0, nullptr}};
  static PyType_Spec spec = {
      "iterlab._C.QuickOverload", sizeof(QuickOverload), 0,
      Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
  static PyObject* const type = PyType_FromSpec(&spec);
  return reinterpret_cast<PyTypeObject*>(type);
}

}  // namespace

void bind_quick_overloads(py::module_& module) {
  module.def(
      "quick_overload",
      [](const std::string& name, const py::object& original) -> py::object {
        std::unique_ptr<CallLane> lane = make_lane(name, LaneOf::Overload);
        if (lane == nullptr) return py::none();
        auto* const quick = PyObject_New(QuickOverload, quick_type());
        if (quick == nullptr) throw py::error_already_set();
        quick->vectorcall = &call_overload;
        quick->lane = lane.release();  // both live as long as the process
        quick->original = py::object(original).release().ptr();
        return py::reinterpret_steal<py::object>(reinterpret_cast<PyObject*>(quick));
      },
      py::arg("name"), py::arg("original"),
      "A callable for an operator's default overload, or None.");
}

}  // namespace iterlab
