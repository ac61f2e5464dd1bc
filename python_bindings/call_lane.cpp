// Plain calls, typed by how many tensors and numbers a schema has.
#include "python_bindings/call_lane.h"

#include <ATen/ScalarOps.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <vector>

namespace iterlab {
namespace {

// What a parameter's default is and whether it may be given by position.
struct LaneParameter {
  PyObject* name = nullptr;  // interned
  bool keyword_only = false;
  bool takes_number = false;  // a tensor operand in place of which a number may stand
  bool has_default = false;
  at::Scalar default_value;
};

// Note [The GIL and small calls]
// Giving up the GIL and taking it back costs a tenth of a small call, and threads that wait for it
// gain nothing from a few microseconds. So it is kept where all operands are on the CPU and the
// product of their sizes, which the result cannot exceed, is at most kSmallProduct. NumPy keeps it
// below 500 elements.
constexpr int64_t kSmallProduct = 1 << 16;

// The number of elements; more than kSmallProduct where the operand is elsewhere or symbolic.
int64_t small_numel(const at::Tensor& tensor) {
  const c10::TensorImpl* const impl = tensor.unsafeGetTensorImpl();
  if (impl->has_symbolic_sizes_strides() || !impl->is_cpu()) return kSmallProduct + 1;
  return std::clamp<int64_t>(impl->numel(), 1, kSmallProduct + 1);
}

// Releases the GIL for a scope, unless `keep`.
class WithoutGil {
 public:
  explicit WithoutGil(bool keep) : state_(keep ? nullptr : PyEval_SaveThread()) {}
  ~WithoutGil() {
    if (state_ != nullptr) PyEval_RestoreThread(state_);
  }
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;

 private:
  PyThreadState* state_;
};

// The tensor that a Python object holds, without a copy. Note [No copies of tensors]
at::Tensor& writable(PyObject* object) {
  return const_cast<at::Tensor&>(THPVariable_Unpack(object));
}

// A number of exactly Python's own types, or nothing.
bool load_number(PyObject* object, at::Scalar& number) {
  if (PyFloat_CheckExact(object)) {
    number = PyFloat_AS_DOUBLE(object);
  } else if (PyBool_Check(object)) {
    number = object == Py_True;
  } else if (PyLong_CheckExact(object)) {
    int overflow = 0;
    const long long value = PyLong_AsLongLongAndOverflow(object, &overflow);
    if (overflow != 0) return false;
    number = static_cast<int64_t>(value);
  } else {
    return false;
  }
  return true;
}

// A tensor operand: a tensor of exactly torch's own type, or a number as a 0-d tensor that is weak
// in promotion.
struct TensorArgument {
  const at::Tensor* tensor = nullptr;
  at::Tensor number;

  bool load(PyObject* object, const LaneParameter& parameter) {
    if (object == nullptr) return false;
    if (THPVariable_CheckExact(object)) {
      tensor = &THPVariable_Unpack(object);
      return true;
    }
    // A mode written in Python would get the number itself, which this overload does not take.
    if (!parameter.takes_number || c10::impl::TorchDispatchModeTLS::any_modes_set()) return false;
    at::Scalar value;
    if (!load_number(object, value)) return false;
    number = at::native::wrapped_scalar_tensor(value);
    tensor = &number;
    return true;
  }
};

// A number argument; its default where it is not given.
struct ScalarArgument {
  const at::Scalar* scalar = nullptr;
  at::Scalar value;

  bool load(PyObject* object, const LaneParameter& parameter) {
    if (object == nullptr) {
      scalar = &parameter.default_value;
      return parameter.has_default;
    }
    scalar = &value;
    return load_number(object, value);
  }
};

template <size_t>
using TensorType = const at::Tensor&;
template <size_t>
using ScalarType = const at::Scalar&;

// The typed entries of operators with tensors I... (but the first, in place) and numbers K...
template <class I, class K>
struct Entries;

template <size_t... I, size_t... K>
struct Entries<std::index_sequence<I...>, std::index_sequence<K...>> {
  using Functional = at::Tensor(TensorType<I>..., ScalarType<K>...);
  using Out = at::Tensor&(TensorType<I>..., ScalarType<K>..., at::Tensor&);
};

constexpr size_t kMaxArguments = 8;

// Binds Python arguments to parameters: null where one is not given. The last one is `out`.
class Binder {
 public:
  Binder(const c10::OperatorHandle& op, LaneOf door) : out_(door == LaneOf::Function) {
    const std::string& name = op.operator_name().name;
    for (const c10::Argument& argument : op.schema().arguments()) {
      LaneParameter parameter;
      parameter.name = PyUnicode_InternFromString(argument.name().c_str());
      parameter.keyword_only = argument.kwarg_only();
      if (!argument.kwarg_only()) ++positional_;
      parameter.has_default = argument.default_value().has_value();
      if (parameter.has_default) parameter.default_value = argument.default_value()->toScalar();
      // Note [Number operands]
      parameter.takes_number =
          c10::Dispatcher::singleton().findSchema({name, "Scalar_" + argument.name()}).has_value();
      parameters.push_back(parameter);
    }
    out_name_ = PyUnicode_InternFromString("out");
  }

  bool bind(PyObject* const* args, Py_ssize_t count, PyObject* keywords,
            std::array<PyObject*, kMaxArguments>& bound) const {
    if (count > static_cast<Py_ssize_t>(positional_)) return false;
    for (size_t i = 0; i <= parameters.size(); ++i)
      bound[i] = static_cast<Py_ssize_t>(i) < count ? args[i] : nullptr;
    if (keywords == nullptr) return true;
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(keywords); ++k) {
      const size_t i = index_of(PyTuple_GET_ITEM(keywords, k));
      if (i > parameters.size() || bound[i] != nullptr) return false;
      bound[i] = args[count + k];
    }
    if (bound[parameters.size()] == Py_None) bound[parameters.size()] = nullptr;
    return true;
  }

  std::vector<LaneParameter> parameters;

 private:
  // Keywords of a call in source code are interned, so that names are the same object.
  size_t index_of(PyObject* name) const {
    for (size_t i = 0; i < parameters.size(); ++i) {
      if (parameters[i].name == name) return i;
    }
    return out_ && name == out_name_ ? parameters.size() : parameters.size() + 1;
  }

  bool out_;
  size_t positional_ = 0;
  PyObject* out_name_ = nullptr;
};

// Operators of `num_tensors` tensors and then `num_scalars` numbers.
template <size_t num_tensors, size_t num_scalars>
class FunctionalLane : public CallLane {
  using Tensors = std::make_index_sequence<num_tensors>;
  using Scalars = std::make_index_sequence<num_scalars>;
  using Entry = Entries<Tensors, Scalars>;

 public:
  FunctionalLane(const c10::OperatorHandle& functional, const c10::OperatorHandle& out,
                 Binder binder)
      : functional_(functional.typed<typename Entry::Functional>()),
        out_(out.typed<typename Entry::Out>()),
        binder_(std::move(binder)) {}

  PyObject* call(PyObject* const* args, Py_ssize_t count, PyObject* keywords) const override {
    return call(args, count, keywords, Tensors{}, Scalars{});
  }

 private:
  template <size_t... I, size_t... K>
  PyObject* call(PyObject* const* args, Py_ssize_t count, PyObject* keywords,
                 std::index_sequence<I...>, std::index_sequence<K...>) const {
    std::array<PyObject*, kMaxArguments> bound;
    if (!binder_.bind(args, count, keywords, bound)) return nullptr;
    std::array<TensorArgument, num_tensors> tensors;
    if (!(tensors[I].load(bound[I], binder_.parameters[I]) && ...)) return nullptr;
    if ((tensors[I].number.defined() && ...)) return nullptr;  // numbers alone
    std::array<ScalarArgument, num_scalars> scalars;
    if (!(scalars[K].load(bound[num_tensors + K], binder_.parameters[num_tensors + K]) && ...))
      return nullptr;
    const bool small = (small_numel(*tensors[I].tensor) * ...) <= kSmallProduct;
    PyObject* const out = bound[num_tensors + num_scalars];
    if (out != nullptr) {
      if (!THPVariable_CheckExact(out)) return nullptr;
      at::Tensor& result = writable(out);
      {
        const WithoutGil guard(small && small_numel(result) <= kSmallProduct);
        out_.call(*tensors[I].tensor..., *scalars[K].scalar..., result);
      }
      return Py_NewRef(out);
    }
    at::Tensor result = [&] {
      const WithoutGil guard(small);
      return functional_.call(*tensors[I].tensor..., *scalars[K].scalar...);
    }();
    return THPVariable_Wrap(std::move(result));
  }

  c10::TypedOperatorHandle<typename Entry::Functional> functional_;
  c10::TypedOperatorHandle<typename Entry::Out> out_;
  Binder binder_;
};

// The same in place: `num_tensors` counts the operand that is written.
template <size_t num_tensors, size_t num_scalars>
class InplaceLane : public CallLane {
  using Others = std::make_index_sequence<num_tensors - 1>;
  using Scalars = std::make_index_sequence<num_scalars>;

  template <class I, class K>
  struct Entry;
  template <size_t... I, size_t... K>
  struct Entry<std::index_sequence<I...>, std::index_sequence<K...>> {
    using type = at::Tensor&(at::Tensor&, TensorType<I>..., ScalarType<K>...);
  };
  using Signature = typename Entry<Others, Scalars>::type;

 public:
  InplaceLane(const c10::OperatorHandle& op, Binder binder)
      : handle_(op.typed<Signature>()), binder_(std::move(binder)) {}

  PyObject* call(PyObject* const* args, Py_ssize_t count, PyObject* keywords) const override {
    return call(args, count, keywords, Others{}, Scalars{});
  }

 private:
  template <size_t... I, size_t... K>
  PyObject* call(PyObject* const* args, Py_ssize_t count, PyObject* keywords,
                 std::index_sequence<I...>, std::index_sequence<K...>) const {
    std::array<PyObject*, kMaxArguments> bound;
    if (!binder_.bind(args, count, keywords, bound)) return nullptr;
    const size_t arguments = num_tensors + num_scalars;
    if (bound[0] == nullptr || !THPVariable_CheckExact(bound[0]) || bound[arguments] != nullptr)
      return nullptr;
    std::array<TensorArgument, num_tensors> tensors;
    if (!(tensors[I + 1].load(bound[I + 1], binder_.parameters[I + 1]) && ...)) return nullptr;
    std::array<ScalarArgument, num_scalars> scalars;
    if (!(scalars[K].load(bound[num_tensors + K], binder_.parameters[num_tensors + K]) && ...))
      return nullptr;
    at::Tensor& written = writable(bound[0]);
    {
      const WithoutGil guard((small_numel(written) * ... * small_numel(*tensors[I + 1].tensor)) <=
                             kSmallProduct);
      handle_.call(written, *tensors[I + 1].tensor..., *scalars[K].scalar...);
    }
    return Py_NewRef(bound[0]);
  }

  c10::TypedOperatorHandle<Signature> handle_;
  Binder binder_;
};

// How many tensors a schema begins with, and how many numbers follow; nothing else may.
struct Counts {
  size_t tensors = 0, scalars = 0;
};

std::optional<Counts> count_arguments(const c10::FunctionSchema& schema) {
  Counts counts;
  for (const c10::Argument& argument : schema.arguments()) {
    const c10::TypeKind kind = argument.type()->kind();
    if (kind == c10::TypeKind::TensorType && counts.scalars == 0) {
      ++counts.tensors;
    } else if (kind == c10::TypeKind::NumberType) {
      ++counts.scalars;
    } else {
      return std::nullopt;
    }
  }
  if (schema.returns().size() != 1) return std::nullopt;
  return counts;
}

// The signatures that have lanes.
constexpr Counts kLanes[] = {{1, 0}, {1, 1}, {1, 2}, {1, 3}, {2, 0},
                             {2, 1}, {2, 2}, {3, 0}, {3, 1}};

template <template <size_t, size_t> class Lane, size_t i = 0, class... Args>
std::unique_ptr<CallLane> lane_of(Counts counts, const Args&... args) {
  if constexpr (i < std::size(kLanes)) {
    if (counts.tensors == kLanes[i].tensors && counts.scalars == kLanes[i].scalars)
      return std::make_unique<Lane<kLanes[i].tensors, kLanes[i].scalars>>(args...);
    return lane_of<Lane, i + 1>(counts, args...);
  } else {
    return nullptr;
  }
}

}  // namespace

std::unique_ptr<CallLane> make_lane(const std::string& name, LaneOf door) {
  c10::Dispatcher& dispatcher = c10::Dispatcher::singleton();
  const std::string full_name = "iterlab::" + name;
  const auto op = dispatcher.findSchema({full_name, ""});
  if (!op) return nullptr;
  const std::optional<Counts> counts = count_arguments(op->schema());
  if (!counts || counts->tensors == 0) return nullptr;
  const Binder binder(*op, door);
  if (name.back() == '_') return lane_of<InplaceLane>(*counts, *op, binder);
  const auto out = dispatcher.findSchema({full_name, "out"});
  return out ? lane_of<FunctionalLane>(*counts, *op, *out, binder) : nullptr;
}

}  // namespace iterlab
