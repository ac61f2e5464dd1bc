// vmap: the batch rules of elementwise operators and of reductions, one each for all signatures.
#include "engine/result_type.h"
#include "src/operands.h"
#include "src/transforms.h"

#include <ATen/ExpandUtils.h>
#include <ATen/functorch/BatchedTensorImpl.h>
#include <ATen/functorch/DynamicLayer.h>
#include <ATen/functorch/TensorWrapper.h>
#include <ATen/ops/stack.h>
#include <c10/core/WrapDimMinimal.h>

namespace at::functorch {
// Declared in PlumbingHelper.h, which needs more headers that no wheel ships.
TORCH_API std::tuple<Tensor, std::optional<int64_t>> unwrapTensorAtLevel(const Tensor& tensor,
                                                                         int64_t level);
}  // namespace at::functorch

namespace iterlab {
namespace {

using at::Tensor;
using torch::jit::Stack;

// A tensor argument, without its batch dim in front where it has one.
struct BatchedArgument {
  size_t position = 0;  // among the arguments
  Tensor value;         // the batch dim, if any, comes first
  bool batched = false;
  bool written = false;

  int64_t rank() const { return value.dim() - (batched ? 1 : 0); }  // as the caller sees it
};

bool is_written(const c10::Argument& argument) {
  return argument.alias_info() != nullptr && argument.alias_info()->isWrite();
}

// One call under vmap: its arguments at the level of the innermost vmap.
class BatchedCall {
 public:
  BatchedCall(const c10::OperatorHandle& op, Stack* stack)
      : op_(op), originals_(torch::jit::pop(*stack, op.schema().arguments().size())) {
    const auto layer = at::functorch::maybeCurrentDynamicLayer();
    TORCH_CHECK(layer.has_value(), op.operator_name().name,
                ": a tensor of a vmap was used outside of that vmap");
    level_ = layer->layerId();
    for (size_t i = 0; i < originals_.size(); ++i) {
      if (!originals_[i].isTensor() || !originals_[i].toTensor().defined()) continue;
      auto [value, dim] = at::functorch::unwrapTensorAtLevel(originals_[i].toTensor(), level_);
      if (dim) value = value.movedim(*dim, 0);
      tensors.push_back({i, value, dim.has_value(), is_written(op.schema().arguments()[i])});
    }
  }

  bool any_batched() const {
    return std::any_of(tensors.begin(), tensors.end(), [](const auto& t) { return t.batched; });
  }

  // Raises where a tensor without a batch dim would have to take a result of every sample.
  void refuse_unbatched_writes() const {
    for (const BatchedArgument& tensor : tensors) {
      if (!tensor.written || tensor.batched) continue;
      const std::string& name = op_.operator_name().name;
      const std::string& argument = op_.schema().arguments()[tensor.position].name();
      TORCH_CHECK(false, "vmap: ", name, ": writing to ", argument,
                  " is not possible because another operand is being vmapped over and ", argument,
                  " is not: it has no place for every sample's result. Use the out-of-place "
                  "operator instead.");
    }
  }

  // Operands that all samples share, and an output that each has: the first operand is expanded.
  void batch_an_operand() {
    const BatchedArgument* output = nullptr;
    for (const BatchedArgument& tensor : tensors) {
      if (tensor.batched && !tensor.written) return;
      if (tensor.batched) output = &tensor;
    }
    BatchedArgument& operand = tensors.front();
    if (output == nullptr || operand.batched) return;
    std::vector<c10::SymInt> shape = operand.value.sym_sizes().vec();
    shape.insert(shape.begin(), output->value.sym_size(0));
    operand.value = operand.value.expand_symint(shape);
    operand.batched = true;
  }

  // Calls the operator below vmap. Results get the batch dim in front; written tensors are returned
  // as they came.
  void run(Stack* stack) const {
    Stack inner = originals_;
    for (const BatchedArgument& tensor : tensors) inner[tensor.position] = tensor.value;
    run(std::move(inner), stack);
  }

  void run(Stack inner, Stack* stack) const {
    op_.callBoxed(inner);
    const bool batched = any_batched();
    size_t next_written = 0;
    for (c10::IValue& result : inner) {
      while (next_written < tensors.size() && !tensors[next_written].written) ++next_written;
      if (next_written < tensors.size()) {
        stack->push_back(originals_[tensors[next_written++].position]);
      } else if (batched) {
        stack->push_back(at::functorch::makeBatched(result.toTensor(), 0, level_));
      } else {
        stack->push_back(std::move(result));
      }
    }
  }

  const c10::OperatorHandle& op() const { return op_; }
  const Stack& originals() const { return originals_; }
  int64_t level() const { return level_; }

  std::vector<BatchedArgument> tensors;

 private:
  const c10::OperatorHandle& op_;
  Stack originals_;
  int64_t level_ = 0;
};

// The common dtype of the operands, numbers among them. `logical`: as the caller sees them, without
// batch dims.
DType promoted_dtype(const OpInfo& op, const BatchedCall& call, bool logical) {
  static constexpr int64_t some_dim[] = {1};
  Operands operands;
  operands.num_inputs = op.num_inputs;
  operands.default_dtype = c10::get_default_dtype_as_scalartype();
  for (int i = 0; i < op.num_inputs; ++i) {
    Operand& operand = operands.input(i);
    const c10::IValue& value = call.originals()[static_cast<size_t>(i)];
    operand.is_wrapped_number = !value.isTensor();
    if (!value.isTensor()) operand.dtype = value.toScalar().type();
  }
  for (const BatchedArgument& tensor : call.tensors) {
    if (tensor.position >= static_cast<size_t>(op.num_inputs)) continue;
    Operand& operand = operands.input(static_cast<int>(tensor.position));
    if ((logical ? tensor.rank() : tensor.value.dim()) > 0) operand.sizes = some_dim;
    operand.dtype = tensor.value.scalar_type();
    operand.is_wrapped_number = tensor.value.unsafeGetTensorImpl()->is_wrapped_number();
  }
  int promoted_by = 0;
  return with_torch_errors([&] { return common_dtype(operands, op, promoted_by); });
}

// Note [Promotion under vmap]
// A 0-d tensor of one sample has a dim below vmap, and would outrank what it must not. Where that
// changes the common dtype: beside tensors with dims, batched 0-d operands are cast to it; among
// 0-d ones alone, those without a batch dim get one of size 1, so that all have the same rank
// again.
void keep_promotion(const OpInfo& op, BatchedCall& call) {
  const DType wanted = promoted_dtype(op, call, true);
  if (wanted == promoted_dtype(op, call, false)) return;
  const auto is_promoted = [&](const BatchedArgument& tensor) {
    return tensor.position < static_cast<size_t>(op.num_inputs) &&
           (op.promoted_inputs >> tensor.position & 1u) != 0 &&
           !tensor.value.unsafeGetTensorImpl()->is_wrapped_number();
  };
  const bool any_dims = std::any_of(
      call.tensors.begin(), call.tensors.end(),
      [&](const BatchedArgument& tensor) { return is_promoted(tensor) && tensor.rank() > 0; });
  for (BatchedArgument& tensor : call.tensors) {
    if (!is_promoted(tensor) || tensor.rank() > 0) continue;
    if (any_dims && tensor.batched) tensor.value = tensor.value.to(wanted);
    if (!any_dims && !tensor.batched) tensor.value = tensor.value.unsqueeze(0);
  }
}

// Batch dims in front, samples aligned at their last dims.
void align(const OpInfo& op, BatchedCall& call) {
  int64_t rank = 0;
  for (const BatchedArgument& tensor : call.tensors) {
    if (tensor.position < static_cast<size_t>(op.num_inputs)) rank = std::max(rank, tensor.rank());
  }
  keep_promotion(op, call);
  for (BatchedArgument& tensor : call.tensors) {
    if (!tensor.batched || tensor.position >= static_cast<size_t>(op.num_inputs)) continue;
    for (int64_t missing = rank - tensor.rank(); missing > 0; --missing)
      tensor.value = tensor.value.unsqueeze(1);
  }
}

// out= cannot be resized below vmap: what the caller holds would keep its shape.
void refuse_resizing(const OpInfo& op, const BatchedCall& call) {
  std::vector<c10::SymInt> shape;
  for (const BatchedArgument& tensor : call.tensors) {
    if (tensor.position < static_cast<size_t>(op.num_inputs))
      shape = at::infer_size_symint(shape, tensor.value.sym_sizes());
  }
  for (const BatchedArgument& tensor : call.tensors) {
    TORCH_CHECK(tensor.position < static_cast<size_t>(op.num_inputs) ||
                    tensor.value.sym_sizes().equals(shape),
                "vmap: ", call.op().operator_name().name, ": expected out of the result's shape ",
                c10::SymIntArrayRef(shape).slice(1), ", got shape ",
                tensor.value.sym_sizes().slice(1), ": it cannot be resized under vmap");
  }
}

// Sample by sample.
void run_each_sample(const c10::OperatorHandle& handle, const BatchedCall& call, Stack* stack) {
  const auto batched = std::find_if(call.tensors.begin(), call.tensors.end(),
                                    [](const BatchedArgument& tensor) { return tensor.batched; });
  const int64_t count = batched->value.size(0);
  std::vector<std::vector<Tensor>> results(handle.schema().returns().size());
  for (int64_t sample = 0; sample < count; ++sample) {
    Stack inner = call.originals();
    for (const BatchedArgument& tensor : call.tensors) {
      inner[tensor.position] = tensor.batched ? tensor.value.select(0, sample) : tensor.value;
    }
    handle.callBoxed(inner);
    for (size_t i = 0; i < results.size(); ++i) results[i].push_back(inner[i].toTensor());
  }
  size_t written = 0;
  for (const BatchedArgument& tensor : call.tensors) {
    if (!tensor.written) continue;
    stack->push_back(call.originals()[tensor.position]);
    ++written;
  }
  for (size_t i = written; i < results.size(); ++i)
    stack->push_back(at::functorch::makeBatched(at::stack(results[i]), 0, call.level()));
}

// Whether an operand that must be one value is another one in every sample.
bool has_batched_number(const OpInfo& op, const BatchedCall& call) {
  return std::any_of(call.tensors.begin(), call.tensors.end(), [&](const BatchedArgument& tensor) {
    return tensor.batched && (op.number_inputs >> tensor.position & 1u) != 0;
  });
}

struct ElementwiseBatchRule : c10::OperatorKernel {
  const OpInfo& op;
  explicit ElementwiseBatchRule(const OpInfo& o) : op(o) {}

  void operator()(const c10::OperatorHandle& handle, c10::DispatchKeySet, Stack* stack) const {
    c10::impl::ExcludeDispatchKeyGuard guard(c10::DispatchKey::FuncTorchBatched);
    BatchedCall call(handle, stack);
    if (call.any_batched()) {
      call.refuse_unbatched_writes();
      if (has_batched_number(op, call)) return run_each_sample(handle, call, stack);
      call.batch_an_operand();
      align(op, call);
      refuse_resizing(op, call);
    }
    call.run(stack);
  }
};

// Where an argument of that name is, or -1.
int argument_index(const c10::OperatorHandle& op, std::string_view name) {
  const std::optional<int> found = op.schema().argumentIndexWithName(name);
  return found ? *found : -1;
}

// Dims of one sample become dims below vmap: one further, counted from the front.
std::vector<int64_t> shifted_dims(const c10::IValue& dims, int64_t rank) {
  std::vector<int64_t> result;
  if (dims.isInt()) {
    result.push_back(dims.toInt());
  } else if (!dims.isNone()) {
    result = dims.toIntVector();
  }
  for (int64_t& dim : result) dim = c10::maybe_wrap_dim(dim, rank) + 1;
  if (result.empty()) {
    for (int64_t dim = 0; dim < rank; ++dim) result.push_back(dim + 1);
  }
  return result;
}

// Reductions: over the same dims of the sample. One of no dims is over a dim of size 1, which goes.
struct ReductionBatchRule : c10::OperatorKernel {
  void operator()(const c10::OperatorHandle& handle, c10::DispatchKeySet, Stack* stack) const {
    c10::impl::ExcludeDispatchKeyGuard guard(c10::DispatchKey::FuncTorchBatched);
    BatchedCall call(handle, stack);
    if (!call.any_batched()) return call.run(stack);
    call.refuse_unbatched_writes();
    call.batch_an_operand();
    BatchedArgument& input = call.tensors[0];
    Stack inner = call.originals();
    const int dim = argument_index(handle, "dim"), keepdim = argument_index(handle, "keepdim");
    if (dim < 0) return run_each_sample(handle, call, stack);  // takes no dim
    c10::IValue& dims = inner[static_cast<size_t>(dim)];
    const int64_t rank = input.rank();
    const bool is_list =
        handle.schema().arguments()[static_cast<size_t>(dim)].type()->str() != "Optional[int]" &&
        !dims.isInt();
    std::vector<int64_t> shifted = shifted_dims(dims, rank);
    const bool keep = keepdim >= 0 && inner[static_cast<size_t>(keepdim)].toBool();
    int64_t restored = 0;  // kept dims of size 1 that flattening took away
    if (rank == 0) {
      input.value = input.value.unsqueeze(1);
      shifted = {1};
      if (keepdim >= 0) inner[static_cast<size_t>(keepdim)] = false;
    } else if (!is_list && dims.isNone()) {
      input.value = input.value.flatten(1);
      shifted = {1};
      restored = keep ? rank - 1 : 0;
    }
    dims = is_list ? c10::IValue(shifted) : c10::IValue(shifted[0]);
    for (const BatchedArgument& tensor : call.tensors) inner[tensor.position] = tensor.value;
    call.run(std::move(inner), stack);
    for (; restored > 0; --restored) {
      for (size_t i = stack->size() - handle.schema().returns().size(); i < stack->size(); ++i)
        (*stack)[i] = (*stack)[i].toTensor().unsqueeze(-1);
    }
  }
};

}  // namespace

void register_vmap(const OpInfo& op, Variant, const c10::OperatorName& name) {
  const auto key = c10::DispatchKey::FuncTorchBatched;
  if (op.kind == OpKind::Elementwise) {
    register_rule(name, key, std::make_unique<ElementwiseBatchRule>(op));
  } else {
    register_rule(name, key, std::make_unique<ReductionBatchRule>());
  }
}

}  // namespace iterlab
