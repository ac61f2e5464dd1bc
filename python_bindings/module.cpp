// The Python door to the planner: operators, plans and paths as Python data, made without tensors.
#include "engine/kernel_table.h"
#include "engine/op_table.h"
#include "engine/plan.h"
#include "engine/reduce_plan.h"
#include "iterlab/error.h"
#include "python_bindings/fast_call.h"
#include "python_bindings/plan_times.h"
#include "src/composites.h"
#include "src/cuda_backend.h"
#include "src/small_call.h"

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>

namespace py = pybind11;

namespace iterlab {
namespace {

DType dtype_from_name(const std::string& name) {
#define ITERLAB_MATCH(type, dtype, text) \
  if (name == text) return DType::dtype;
  ITERLAB_FORALL_STORAGE_TYPES(ITERLAB_MATCH)
#undef ITERLAB_MATCH
  return DType::Undefined;
}

py::tuple as_tuple(const Dims& dims) {
  return py::cast(std::vector<int64_t>(dims.begin(), dims.end()));
}

// `overload` tells reductions of one name apart: "dim" of max.dim.
const OpInfo& op_named(const std::string& name, OpKind kind, const std::string& overload = "") {
  const auto table = op_table();
  const auto op = std::find_if(table.begin(), table.end(), [&](const OpInfo& info) {
    return info.name == name && info.kind == kind && info.reduction.overload == overload;
  });
  if (op == table.end()) {
    throw py::value_error(
        "iterlab: expected the name of " +
        std::string(kind == OpKind::Elementwise ? "an elementwise operator" : "a reduction") +
        ", got '" + name + "'");
  }
  return *op;
}

// An operand as Python describes it: what a tensor would say of itself.
struct OperandSpec {
  std::vector<int64_t> sizes, strides;
  std::string dtype;
  bool is_wrapped_number = false;
  uintptr_t address = 0;

  Operand view(OutputKind kind) const {
    Operand operand;
    operand.sizes = sizes;
    operand.strides = strides;
    operand.dtype = dtype_from_name(dtype);
    operand.is_wrapped_number = is_wrapped_number;
    operand.output_kind = kind;
    operand.data = reinterpret_cast<const void*>(address);
    return operand;
  }
};

// The operands of a call. In place, the first input is the output too.
Operands describe(const std::vector<OperandSpec>& inputs, const std::optional<OperandSpec>& out,
                  bool inplace, const std::string& dtype, const std::string& default_dtype,
                  bool rounds) {
  Operands operands;
  operands.rounds = rounds;
  operands.num_outputs = 1;
  operands.num_inputs = static_cast<int>(inputs.size());
  operands.dtype_argument = dtype_from_name(dtype);
  operands.default_dtype = dtype_from_name(default_dtype);
  if (inplace) operands.output(0) = inputs.at(0).view(OutputKind::Inplace);
  if (out) operands.output(0) = out->view(OutputKind::Given);
  for (size_t i = 0; i < inputs.size(); ++i)
    operands.input(static_cast<int>(i)) = inputs[i].view(OutputKind::Allocated);
  return operands;
}

std::vector<std::string> legal_path_names(const Plan& plan) {
  std::vector<std::string> names;
  for (size_t i = 0; i < kPathNames.size(); ++i) {
    if ((plan.legal_paths >> i & 1u) != 0) names.emplace_back(kPathNames[i]);
  }
  return names;
}

constexpr std::array kReasonNames{"empty",       "flat",       "inner_strided",
                                  "nested_dims", "short_rows", "fastest_dim_differs",
                                  "tiny_tiles",  "forced"};

py::dict plan_facts(const Plan& plan) {
  py::list operands;
  for (int i = 0; i < plan.num_operands; ++i) {
    const OperandPlan& operand = plan.operands[static_cast<size_t>(i)];
    const bool is_output = i < plan.num_outputs;
    operands.append(py::dict(
        py::arg("name") =
            is_output ? "out" : plan.op->inputs[static_cast<size_t>(i - plan.num_outputs)],
        py::arg("is_output") = is_output, py::arg("dtype") = dtype_name(operand.dtype),
        py::arg("layout") = kLayoutNames[static_cast<size_t>(operand.layout)],
        py::arg("lane_dtype") = dtype_name(operand.lane_dtype), py::arg("staged") = operand.staged,
        py::arg("streamed") = operand.streamed, py::arg("strides") = as_tuple(operand.strides)));
  }
  return py::dict(py::arg("op") = plan.op->name, py::arg("shape") = as_tuple(plan.shape),
                  py::arg("numel") = plan.numel,
                  py::arg("common_dtype") = dtype_name(plan.common_dtype),
                  py::arg("compute_dtype") = dtype_name(plan.compute_dtype),
                  py::arg("result_dtype") = dtype_name(plan.result_dtype),
                  py::arg("promoted_by") = plan.op->inputs[static_cast<size_t>(plan.promoted_by)],
                  py::arg("output_strides") = as_tuple(plan.output_strides),
                  py::arg("resizes_output") = plan.resized_outputs != 0,
                  py::arg("permutation") = as_tuple(plan.permutation),
                  py::arg("loop_shape") = as_tuple(plan.loop_shape), py::arg("operands") = operands,
                  py::arg("path") = kPathNames[static_cast<size_t>(plan.path)],
                  py::arg("reason") = kReasonNames[static_cast<size_t>(plan.reason)],
                  py::arg("reason_operand") = plan.reason_operand,
                  py::arg("legal_paths") = legal_path_names(plan),
                  py::arg("tile") = py::make_tuple(plan.tile_inner, plan.tile_rows),
                  py::arg("bytes") = plan.bytes);
}

py::dict reduce_plan_facts(const ReducePlan& plan) {
  std::vector<int64_t> dims;
  for (int d = 0; d < plan.shape.size(); ++d) {
    if (plan.reduced_dims[static_cast<size_t>(d)]) dims.push_back(d);
  }
  return py::dict(py::arg("op") = plan.op->name, py::arg("shape") = as_tuple(plan.shape),
                  py::arg("dims") = dims, py::arg("output_shape") = as_tuple(plan.output_shape),
                  py::arg("output_strides") = as_tuple(plan.output_strides),
                  py::arg("input_dtype") = dtype_name(plan.input_dtype),
                  py::arg("element_dtype") = dtype_name(plan.element_dtype),
                  py::arg("accumulate_dtype") = dtype_name(plan.accumulate_dtype),
                  py::arg("result_dtype") = dtype_name(plan.result_dtypes[0]),
                  py::arg("resizes_output") = plan.resized_outputs != 0,
                  py::arg("outputs") = plan.outputs, py::arg("reduced") = plan.reduced,
                  py::arg("kept_shape") = as_tuple(plan.kept_shape),
                  py::arg("kept_strides") = as_tuple(plan.kept_input_strides),
                  py::arg("reduced_shape") = as_tuple(plan.reduced_shape),
                  py::arg("reduced_strides") = as_tuple(plan.reduced_strides),
                  py::arg("form") = kReduceFormNames[static_cast<size_t>(plan.form)],
                  py::arg("split") = plan.split, py::arg("staged") = plan.staged,
                  py::arg("bytes") = plan.bytes);
}

std::vector<std::string> dtype_names(DTypeSet set) {
  std::vector<std::string> names;
#define ITERLAB_COLLECT(type, dtype, text) \
  if (set.contains(DType::dtype)) names.emplace_back(text);
  ITERLAB_FORALL_STORAGE_TYPES(ITERLAB_COLLECT)
#undef ITERLAB_COLLECT
  return names;
}

constexpr std::array kPromotionNames{"default",
                                     "int_to_float",
                                     "float_to_bool",
                                     "always_bool",
                                     "complex_to_real",
                                     "to_argument",
                                     "int_to_float_complex_to_real",
                                     "bool_to_int",
                                     "always_int"};
constexpr std::array kParameterNames{"scalar", "alpha",  "float", "optional_float", "int",
                                     "bool",   "choice", "dtype", "memory_format"};

py::dict op_facts(const OpInfo& op) {
  py::list parameters;
  for (int i = 0; i < op.num_parameters; ++i) {
    const Parameter& parameter = op.parameters[static_cast<size_t>(i)];
    std::vector<std::optional<std::string>> choices;
    for (int c = 0; c < parameter.num_choices; ++c) {
      const char* const choice = parameter.choices[static_cast<size_t>(c)];
      choices.push_back(choice == nullptr ? std::nullopt : std::optional<std::string>(choice));
    }
    parameters.append(
        py::dict(py::arg("choices") = choices, py::arg("name") = parameter.name,
                 py::arg("kind") = kParameterNames[static_cast<size_t>(parameter.kind)],
                 py::arg("default") = parameter.default_value,
                 py::arg("keyword_only") = parameter.keyword_only));
  }
  std::vector<std::string> variants{"functional", "out"};
  if ((op.variants & kInplace) != 0) variants.emplace_back("inplace");
  return py::dict(
      py::arg("name") = op.name, py::arg("overload") = op.reduction.overload,
      py::arg("doc") = op.doc, py::arg("torch_name") = op.torch_name,
      py::arg("kind") = op.kind == OpKind::Elementwise ? "elementwise" : "reduction",
      py::arg("inputs") =
          std::vector<std::string>(op.inputs.begin(), op.inputs.begin() + op.num_inputs),
      py::arg("promoted_inputs") = op.promoted_inputs, py::arg("bool_inputs") = op.bool_inputs,
      py::arg("number_inputs") = op.number_inputs,
      py::arg("rounding") = op.rounding_parameter < 0
                                ? nullptr
                                : op.parameters[static_cast<size_t>(op.rounding_parameter)].name,
      py::arg("parameters") = parameters,
      py::arg("promotion") = kPromotionNames[static_cast<size_t>(op.promotion)],
      py::arg("dtypes") = dtype_names(op.dtypes), py::arg("variants") = variants);
}

py::dict composite_facts(const CompositeInfo& op) {
  std::vector<std::string> variants{"functional"};
  if (op.has_out) variants.emplace_back("out");
  if (op.has_inplace) variants.emplace_back("inplace");
  return py::dict(py::arg("name") = op.name, py::arg("call") = op.call, py::arg("doc") = op.doc,
                  py::arg("torch_name") = op.torch_name, py::arg("variants") = variants);
}

std::optional<std::string> force(const std::optional<std::string>& path) {
  const std::optional<Path> before = forced_path();
  std::optional<Path> wanted;
  if (path) {
    for (size_t i = 0; i < kPathNames.size(); ++i) {
      if (*path == kPathNames[i]) wanted = static_cast<Path>(i);
    }
    if (!wanted) {
      throw py::value_error("iterlab: expected path vectorized, strided, tiled or generic, got '" +
                            *path + "'");
    }
  }
  set_forced_path(wanted);
  if (!before) return std::nullopt;
  return kPathNames[static_cast<size_t>(*before)];
}

void raise(const PlanError& error) {
  switch (error.kind()) {
    case PlanError::Kind::Index:
      return PyErr_SetString(PyExc_IndexError, error.what());
    case PlanError::Kind::Type:
      return PyErr_SetString(PyExc_TypeError, error.what());
    case PlanError::Kind::Value:
      return PyErr_SetString(PyExc_ValueError, error.what());
    case PlanError::Kind::NotImplemented:
      return PyErr_SetString(PyExc_NotImplementedError, error.what());
    default:
      return PyErr_SetString(PyExc_RuntimeError, error.what());
  }
}

py::dict plan_elementwise(const std::string& op, const std::vector<OperandSpec>& inputs,
                          const std::optional<OperandSpec>& out, bool inplace,
                          const std::string& dtype, const std::string& default_dtype, bool rounds) {
  const OpInfo& info = op_named(op, OpKind::Elementwise);
  if (static_cast<int>(inputs.size()) != info.num_inputs) {
    throw py::type_error("iterlab::" + op + ": expected " + std::to_string(info.num_inputs) +
                         " operands, got " + std::to_string(inputs.size()));
  }
  const Operands operands = describe(inputs, out, inplace, dtype, default_dtype, rounds);
  Plan plan;
  make_plan(operands, info, plan);
  py::dict facts = plan_facts(plan);
  facts["small"] = is_small_call(info, operands);
  return facts;
}

py::dict plan_reduction(const std::string& op, const OperandSpec& input,
                        const std::optional<std::vector<int64_t>>& dims, bool keepdim,
                        const std::optional<OperandSpec>& out, const std::string& dtype,
                        const std::string& overload, double number) {
  const OpInfo& info = op_named(op, OpKind::Reduction, overload);
  std::optional<std::span<const int64_t>> span;
  if (dims) span = *dims;
  Operands operands = describe({}, out, false, dtype, "float32", false);
  operands.num_outputs = info.num_outputs;
  operands.num_inputs = 1;
  operands.input(0) = input.view(OutputKind::Allocated);
  if (info.num_outputs > 1) {
    for (int i = out ? 1 : 0; i < info.num_outputs; ++i) operands.output(i) = Operand{};
  }
  ReduceRequest request;
  request.dims = reduced_dims(span, static_cast<int>(input.sizes.size()), info);
  request.dims_given = dims && !dims->empty();
  request.keepdim = keepdim;
  request.number = number;
  ReducePlan plan;
  make_reduce_plan(operands, request, info, plan);
  return reduce_plan_facts(plan);
}

py::list noted_launches(bool on) {
  py::list result;
  for (const cuda::Launch& one : note_cuda_launches(on)) {
    result.append(py::make_tuple(one.kernel, py::make_tuple(one.grid.x, one.grid.y), one.threads,
                                 one.shared_bytes));
  }
  return result;
}

OperandSpec operand_spec(std::vector<int64_t> sizes, std::vector<int64_t> strides,
                         std::string dtype, bool wrapped_number, uintptr_t address) {
  if (sizes.size() != strides.size())
    throw py::value_error("iterlab: expected as many strides as sizes");
  return {std::move(sizes), std::move(strides), std::move(dtype), wrapped_number, address};
}

// An entry for each row of a table.
template <class Table, class Facts>
py::list rows_of(const Table& table, const Facts& facts) {
  py::list rows;
  for (const auto& row : table) rows.append(facts(row));
  return rows;
}

void bind_planner(py::module_& module) {
  py::class_<OperandSpec>(module, "Operand",
                          "A tensor as the planner sees it. Sizes and strides are in elements.")
      .def(py::init(&operand_spec), py::arg("sizes"), py::arg("strides"), py::arg("dtype"),
           py::arg("wrapped_number") = false, py::arg("address") = 0);
  module.def("make_plan", &plan_elementwise, py::arg("op"), py::arg("inputs"),
             py::arg("out") = py::none(), py::arg("inplace") = false, py::arg("dtype") = "",
             py::arg("default_dtype") = "float32", py::arg("rounds") = false,
             "Plans an elementwise call; returns its facts.");
  module.def("make_reduce_plan", &plan_reduction, py::arg("op"), py::arg("input"),
             py::arg("dims") = py::none(), py::arg("keepdim") = false, py::arg("out") = py::none(),
             py::arg("dtype") = "", py::arg("overload") = "", py::arg("number") = 1.0,
             "Plans a reduction; returns its facts.");
  module.def(
      "plan_times",
      [](const std::string& op, const std::vector<OperandSpec>& inputs, int calls) {
        return plan_times(describe(inputs, std::nullopt, false, "", "float32", false),
                          op_named(op, OpKind::Elementwise), calls);
      },
      py::arg("op"), py::arg("inputs"), py::arg("calls"),
      "Times the stages of planning a call; nanoseconds each.");
  module.def(
      "force_path", &force, py::arg("path"),
      "Makes plans of this thread take a path (None: their own); returns the path forced before.");
  module.def("note_cuda_launches", &noted_launches, py::arg("on"),
             "Notes this thread's launches instead of launching; returns those noted.");
}

void bind_tables(py::module_& module) {
  module.def(
      "op_table", [] { return rows_of(op_table(), op_facts); },
      "Every operator, as its definition states it.");
  module.def(
      "composite_table", [] { return rows_of(composite_table(), composite_facts); },
      "Every operator that is written from others.");
}

}  // namespace

PYBIND11_MODULE(_C, module) {
  module.doc() = "The planner of iterlab, and its operators as functions.";
  py::register_exception_translator([](std::exception_ptr pointer) {
    try {
      if (pointer) std::rethrow_exception(pointer);
    } catch (const PlanError& error) {
      raise(error);
    }
  });
  bind_planner(module);
  bind_tables(module);
  bind_fast_calls(module);
  module.def("cpu_capability", &cpu_capability,
             "The instruction set that CPU kernels run with: default, avx2 or avx512.");
}

}  // namespace iterlab
