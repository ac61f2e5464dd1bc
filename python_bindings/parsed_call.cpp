// Calls of any kind: parsed as a torch function's, put on a stack by what the schema says, called
// boxed.
#include "python_bindings/parsed_call.h"

#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/jit/runtime/operator.h>

#include <limits>
#include <sstream>

namespace py = pybind11;

namespace iterlab {
namespace {

constexpr int kMaxArguments = 24;

bool is_out(const c10::Argument& argument) {
  return argument.kwarg_only() && argument.alias_info() != nullptr;
}

size_t num_outs(const c10::FunctionSchema& schema) {
  size_t count = 0;
  for (const c10::Argument& argument : schema.arguments()) count += is_out(argument);
  return count;
}

// An argument's type in the language of the parser.
std::string parser_type(const c10::Type& type, const c10::Argument& argument) {
  switch (type.kind()) {
    case c10::TypeKind::OptionalType:
      return parser_type(*type.expectRef<c10::OptionalType>().getElementType(), argument) + "?";
    case c10::TypeKind::TensorType:
      return "Tensor";
    case c10::TypeKind::NumberType:
      return "Scalar";
    case c10::TypeKind::IntType:
      return "int64_t";
    case c10::TypeKind::BoolType:
      return "bool";
    case c10::TypeKind::FloatType:
      return "double";
    case c10::TypeKind::StringType:
      return "c10::string_view";
    case c10::TypeKind::ScalarTypeType:
      return "ScalarType";
    case c10::TypeKind::MemoryFormatType:
      return "MemoryFormat";
    case c10::TypeKind::ListType:
      return "IntArrayRef" + (argument.N() ? "[" + std::to_string(*argument.N()) + "]" : "");
    default:
      TORCH_CHECK(false, "iterlab: no function can take an argument of type ", type.str());
  }
}

std::string default_text(const c10::Argument& argument) {
  const c10::IValue& value = *argument.default_value();
  if (value.isNone()) return "None";
  if (value.isBool()) return value.toBool() ? "True" : "False";
  std::ostringstream text;
  text.precision(std::numeric_limits<double>::max_digits10);
  if (value.isString()) {
    text << "\"" << value.toStringRef() << "\"";
  } else if (value.isIntList()) {
    text << "None";
  } else if (value.isInt()) {
    const bool format = argument.real_type()->kind() == c10::TypeKind::MemoryFormatType;
    text << (format ? "contiguous_format" : std::to_string(value.toInt()));
  } else {
    text << value.toScalar().toDouble();
  }
  return text.str();
}

// "Tensor input, Tensor other, *, Scalar alpha=1"; `typed`: with types.
std::string arguments_text(const c10::FunctionSchema& schema, bool typed) {
  std::string text;
  bool starred = false;
  for (const c10::Argument& argument : schema.arguments()) {
    if (!text.empty()) text += ", ";
    if (argument.kwarg_only() && !starred) text += "*, ";
    starred = starred || argument.kwarg_only();
    if (typed) text += parser_type(*argument.real_type(), argument) + " ";
    text += argument.name();
    if (argument.default_value()) text += "=" + default_text(argument);
  }
  return text;
}

bool has_keyword_only(const c10::FunctionSchema& schema) {
  return std::any_of(schema.arguments().begin(), schema.arguments().end(),
                     [](const c10::Argument& argument) { return argument.kwarg_only(); });
}

// Argument i as the schema's type says.
c10::IValue argument_value(torch::PythonArgs& parsed, int i, const c10::Argument& argument) {
  PyObject* const object = parsed.args[i];
  if (object == nullptr) return argument.default_value().value_or(c10::IValue());
  if (object == Py_None) return {};
  c10::TypePtr type = argument.real_type();
  if (const auto optional = type->cast<c10::OptionalType>()) type = optional->getElementType();
  switch (type->kind()) {
    case c10::TypeKind::TensorType:
      return parsed.tensor(i);
    case c10::TypeKind::NumberType:
      return parsed.scalar(i);
    case c10::TypeKind::IntType:
      return parsed.toInt64(i);
    case c10::TypeKind::BoolType:
      return parsed.toBool(i);
    case c10::TypeKind::FloatType:
      return parsed.toDouble(i);
    case c10::TypeKind::StringType:
      return parsed.string(i);
    case c10::TypeKind::ScalarTypeType:
      return parsed.scalartype(i);
    case c10::TypeKind::MemoryFormatType:
      return parsed.memoryformat(i);
    default:
      // The parser takes one number of any integer type, NumPy's among them; intlist only Python's.
      if (PyIndex_Check(object) && !THPVariable_Check(object) && !torch::is_symint(object))
        return std::vector<int64_t>{THPUtils_unpackIndex(object)};
      return parsed.intlist(i);
  }
}

// Torch's type of several results, where its function of the name gives them names: Dynamo and
// pickle know no other. The function keeps it.
PyTypeObject* tuple_type(const std::string& name) {
  py::object type =
      py::getattr(py::module_::import("torch.return_types"), name.c_str(), py::none());
  return type.is_none() ? nullptr : reinterpret_cast<PyTypeObject*>(type.release().ptr());
}

}  // namespace

std::vector<ParsedCall::Overload> ParsedCall::find_overloads(const std::string& name) {
  c10::Dispatcher& dispatcher = c10::Dispatcher::singleton();
  const std::string full_name = "iterlab::" + name;
  std::vector<Overload> found;
  std::vector<c10::OperatorHandle> outs;
  for (const auto& op : torch::jit::getAllOperatorsFor(c10::Symbol::fromQualString(full_name))) {
    const std::string& overload = op->schema().overload_name();
    const auto handle = dispatcher.findSchemaOrThrow(full_name.c_str(), overload.c_str());
    if (num_outs(op->schema()) != 0) {
      outs.push_back(handle);
    } else {
      found.push_back({handle, std::nullopt, nullptr});
    }
  }
  for (Overload& one : found) {
    const std::string text = arguments_text(one.op.schema(), true);
    for (const c10::OperatorHandle& out : outs) {
      const std::string with_out = arguments_text(out.schema(), true);
      const std::string separator = has_keyword_only(one.op.schema()) ? ", " : ", *, ";
      if (with_out.starts_with(text + separator + "Tensor ") &&
          out.schema().arguments().size() ==
              one.op.schema().arguments().size() + num_outs(out.schema())) {
        one.out = out;
      }
    }
  }
  // Tensors before numbers, as torch's own parsers have it.
  std::stable_sort(found.begin(), found.end(), [](const Overload& a, const Overload& b) {
    return a.op.schema().overload_name().size() < b.op.schema().overload_name().size();
  });
  return found;
}

std::vector<std::string> ParsedCall::signatures(const std::string& name,
                                                const std::vector<Overload>& overloads) {
  std::vector<std::string> result;
  for (const Overload& overload : overloads) {
    std::string text = name + "(" + arguments_text(overload.op.schema(), true);
    if (overload.out) {
      const size_t outs = num_outs(overload.out->schema());
      text += has_keyword_only(overload.op.schema()) ? ", " : ", *, ";
      text += outs == 1 ? "Tensor out=None" : "TensorList[" + std::to_string(outs) + "] out=None";
    }
    result.push_back(text + ")");
  }
  return result;
}

ParsedCall::ParsedCall(const std::string& name)
    : name_(name), overloads_(find_overloads(name)), parser_(signatures(name, overloads_)) {
  for (Overload& overload : overloads_) {
    if (overload.op.schema().returns().size() > 1) overload.tuple_type = tuple_type(name);
  }
}

std::string ParsedCall::text_signature() const {
  const Overload& first = overloads_.at(0);
  std::string text = name_ + "(" + arguments_text(first.op.schema(), false);
  if (first.out)
    text += std::string(has_keyword_only(first.op.schema()) ? "" : ", *") + ", out=None";
  return text + ")";
}

PyObject* ParsedCall::call(PyObject* const* args, Py_ssize_t count, PyObject* keywords) {
  py::tuple positional(count);
  for (Py_ssize_t i = 0; i < count; ++i)
    positional[static_cast<size_t>(i)] = py::reinterpret_borrow<py::object>(args[i]);
  py::dict named;
  const Py_ssize_t num_named = keywords == nullptr ? 0 : PyTuple_GET_SIZE(keywords);
  for (Py_ssize_t k = 0; k < num_named; ++k)
    PyDict_SetItem(named.ptr(), PyTuple_GET_ITEM(keywords, k), args[count + k]);
  torch::ParsedArgs<kMaxArguments> buffer;
  torch::PythonArgs parsed = parser_.parse(positional.ptr(), named.ptr(), buffer);
  if (parsed.has_torch_function()) {
    return torch::handle_torch_function_no_python_arg_parser(
        parsed.overloaded_args, positional.ptr(), named.ptr(), name_.c_str(), function_, "iterlab");
  }
  return run(parsed);
}

// torch's parser takes numbers for tensors in functions of some names; the dispatcher has overloads
// for them. Note [Number operands]
const ParsedCall::Overload& ParsedCall::chosen(torch::PythonArgs& parsed) const {
  const Overload& first = overloads_[static_cast<size_t>(parsed.idx)];
  const std::vector<c10::Argument>& arguments = first.op.schema().arguments();
  std::string numbers = "Scalar";
  for (size_t i = 0; i < arguments.size(); ++i) {
    PyObject* const given = parsed.args[i];
    const bool tensor = arguments[i].type()->kind() == c10::TypeKind::TensorType;
    if (tensor && given != nullptr && !THPVariable_Check(given))
      numbers += "_" + arguments[i].name();
  }
  if (numbers == "Scalar") return first;  // none
  for (const Overload& overload : overloads_) {
    if (overload.op.schema().overload_name() == numbers) return overload;
  }
  return first;
}

PyObject* ParsedCall::run(torch::PythonArgs& parsed) const {
  const Overload& overload = chosen(parsed);
  const std::vector<c10::Argument>& arguments = overload.op.schema().arguments();
  torch::jit::Stack stack;
  for (size_t i = 0; i < arguments.size(); ++i)
    stack.push_back(argument_value(parsed, static_cast<int>(i), arguments[i]));
  const int out_index = static_cast<int>(arguments.size());
  PyObject* const out =
      overload.out && !parsed.isNone(out_index) ? parsed.args[out_index] : nullptr;
  const c10::OperatorHandle& op = out != nullptr ? *overload.out : overload.op;
  if (out != nullptr && THPVariable_Check(out)) {
    stack.emplace_back(parsed.tensor(out_index));
  } else if (out != nullptr) {
    for (const at::Tensor& tensor : parsed.tensorlist(out_index)) stack.emplace_back(tensor);
  }
  {
    const py::gil_scoped_release guard;
    op.callBoxed(stack);
  }
  if (out != nullptr) return Py_NewRef(out);
  return wrap(overload, stack);
}

PyObject* ParsedCall::wrap(const Overload& overload, torch::jit::Stack& results) {
  if (results.size() == 1) return THPVariable_Wrap(results[0].toTensor());
  PyObject* const tuple = overload.tuple_type != nullptr
                              ? PyStructSequence_New(overload.tuple_type)
                              : PyTuple_New(static_cast<Py_ssize_t>(results.size()));
  for (size_t i = 0; i < results.size(); ++i) {
    PyObject* const item = THPVariable_Wrap(results[i].toTensor());
    const auto position = static_cast<Py_ssize_t>(i);
    if (overload.tuple_type != nullptr) {
      PyStructSequence_SetItem(tuple, position, item);
    } else {
      PyTuple_SET_ITEM(tuple, position, item);
    }
  }
  return tuple;
}

}  // namespace iterlab
