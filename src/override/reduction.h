// Reductions of iterlab as kernels of ATen's overloads.
#pragma once

#include "engine/reduce_plan.h"
#include "src/override/original.h"
#include "src/reduction_call.h"

namespace iterlab {

// A reduction's arguments by the names that ATen gives them, whatever their order; dims as one
// integer or several. Returns false where another argument or value is there.
inline bool read_argument(const std::string& name, const c10::IValue& value,
                          std::vector<int64_t>& dims, ReduceArguments& arguments) {
  if (name == "dim") {
    if (value.isInt()) dims.push_back(value.toInt());
    if (value.isIntList()) dims = value.toIntVector();
    if (!value.isNone()) arguments.dims = dims;
  } else if (name == "keepdim") {
    arguments.keepdim = value.toBool();
  } else if (name == "dtype") {
    arguments.dtype = value.toOptional<at::ScalarType>();
  } else if (name == "correction" || name == "p") {
    if (value.isComplexDouble()) return false;
    if (!value.isNone()) arguments.number = value.toScalar().toDouble();
  } else {
    return false;
  }
  return true;
}

// Reductions, boxed: ATen has a schema for each way to say which dims.
struct OverrideReduction : c10::OperatorKernel {
  const OpInfo& op;
  Original original;
  OverrideReduction(const OpInfo& o, Original k) : op(o), original(std::move(k)) {}

  void operator()(const c10::OperatorHandle& handle, c10::DispatchKeySet keys,
                  torch::jit::Stack* stack) const {
    if (!run(handle.schema(), stack)) original.kernel.callBoxed(original.op, keys, stack);
  }

 private:
  bool run(const c10::FunctionSchema& schema, torch::jit::Stack* stack) const {
    const size_t count = schema.arguments().size();
    const at::ArrayRef<c10::IValue> values = torch::jit::last(*stack, count);
    ReduceArguments arguments;
    if (op.reduction.schema == ReduceSchema::Order) arguments.number = 2;
    std::vector<int64_t> dims;
    std::array<at::Tensor, kMaxResults> outputs;
    GivenResults given{};
    size_t num_given = 0;
    for (size_t i = 1; i < count; ++i) {
      if (values[i].isTensor()) {
        outputs[num_given] = values[i].toTensor();
        given[num_given] = &outputs[num_given];
        ++num_given;
      } else if (!read_argument(schema.arguments()[i].name(), values[i], dims, arguments)) {
        return false;
      }
    }
    const at::Tensor input = values[0].toTensor();
    if (!is_usual(input, op.beyond_torch)) return false;
    ReduceResults results;
    try {
      if (!takes(input, arguments, given)) return false;
      results = try_reduce_cpu(op, input, arguments, given);
    } catch (const PlanError&) {
      return false;
    }
    torch::jit::drop(*stack, count);
    for (size_t i = 0; i < static_cast<size_t>(op.num_outputs); ++i)
      stack->push_back(given[i] == nullptr ? results[i] : outputs[i]);
    return true;
  }

  // Whether torch takes these dtypes and dims: it raises for an empty list of required dims, and
  // has a bit for each dim.
  bool takes(const at::Tensor& input, const ReduceArguments& arguments,
             const GivenResults& given) const {
    constexpr int64_t kMostDims = 64;
    if (input.dim() > kMostDims) return false;
    if (op.reduction.schema == ReduceSchema::RequiredDims && arguments.dims->empty()) return false;
    DType element;
    std::array<DType, kMaxResults> results;
    plan_reduce_dtypes(op, input.scalar_type(), arguments.dtype.value_or(DType::Undefined),
                       c10::get_default_dtype_as_scalartype(), element, results);
    for (size_t i = 0; i < kMaxResults; ++i) {
      if (given[i] != nullptr && given[i]->scalar_type() != results[i]) return false;
    }
    const bool drops_imaginary = input.is_complex() && !is_complex(element);
    const bool complex_norm = op.reduction.schema == ReduceSchema::Order && arguments.dtype &&
                              is_complex(*arguments.dtype);
    return kUsualDTypes.contains(element) && !drops_imaginary && !complex_norm;
  }
};

// Whether an overload of ATen is this reduction: one input, dims where the operator has them, and
// nothing else that is unknown here.
inline bool is_reduction(const c10::FunctionSchema& schema, const OpInfo& op) {
  if (schema.returns().size() != static_cast<size_t>(op.num_outputs)) return false;
  bool has_dim = false;
  for (size_t i = 0; i < schema.arguments().size(); ++i) {
    const c10::Argument& argument = schema.arguments()[i];
    const bool written = argument.alias_info() != nullptr && argument.alias_info()->isWrite();
    const bool tensor = argument.type()->kind() == c10::TypeKind::TensorType;
    if (tensor != (i == 0 || written)) return false;
    if (tensor) continue;
    const std::string& name = argument.name();
    if (argument.type()->str().find("str") != std::string::npos) return false;  // named dims
    has_dim = has_dim || name == "dim";
    if (name != "dim" && name != "keepdim" && name != "dtype" && name != "correction" &&
        name != "p")
      return false;
  }
  const bool needs_dim = op.reduction.schema == ReduceSchema::RequiredDims;
  const bool takes_dim = op.reduction.schema != ReduceSchema::Full;
  return has_dim ? takes_dim : !needs_dim;
}

}  // namespace iterlab
