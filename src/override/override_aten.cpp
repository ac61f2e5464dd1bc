// The drop-in: ATen's own operators run iterlab's CPU kernels, while this library has them
// registered. Loaded by iterlab.override_aten alone.
#include "engine/op_table.h"
#include "iterlab/ops.h"
#include "src/reduction_call.h"
#include "src/schema.h"
#include "src/signature.h"

#include <ATen/core/boxing/impl/boxing.h>
#include <torch/csrc/jit/runtime/operator.h>

#include <string_view>

namespace iterlab {
namespace {

// Note [Falling back to ATen]
// A call that iterlab does not take (a dtype that the operator lacks, operands that do not
// broadcast) goes to the kernel that was there before, which computes it or raises ATen's own
// error. Nothing has been touched then. So do lazily conjugated and negated operands.
struct Original {
  c10::OperatorHandle op;
  c10::SafeKernelFunction kernel;

  template <class Result, class... Args>
  Result call(c10::DispatchKeySet keys, Args... args) const {
    torch::jit::Stack stack = c10::impl::boxArgs<Args...>(args...);
    kernel.callBoxed(op, keys, &stack);
    return stack.at(0).toTensor();
  }
};

bool is_lazy(const at::Tensor& tensor) { return tensor.is_conj() || tensor.is_neg(); }
template <class Other>
bool is_lazy(const Other&) {
  return false;
}

// Runs `mine`; `theirs` where it does not apply.
template <class Mine, class Theirs>
auto mine_or(const Mine& mine, const Theirs& theirs, bool lazy) {
  if (!lazy) {
    try {
      return mine();
    } catch (const PlanError&) {
    }
  }
  return theirs();
}

template <class Pack, class Signature>
struct OverrideFunctional;

template <class Pack, class... Args>
struct OverrideFunctional<Pack, at::Tensor(Args...)> : c10::OperatorKernel {
  const OpInfo& op;
  Original original;
  OverrideFunctional(const OpInfo& o, Original k) : op(o), original(std::move(k)) {}
  at::Tensor operator()(c10::DispatchKeySet keys, Args... args) {
    return mine_or([&] { return try_call_cpu(op, Pack(op, args...), {}); },
                   [&] { return original.call<at::Tensor, Args...>(keys, args...); },
                   (is_lazy(args) || ...));
  }
};

template <class Pack, class Signature>
struct OverrideInplace;

template <class Pack, class... Args>
struct OverrideInplace<Pack, at::Tensor&(at::Tensor&, Args...)> : c10::OperatorKernel {
  const OpInfo& op;
  Original original;
  OverrideInplace(const OpInfo& o, Original k) : op(o), original(std::move(k)) {}
  at::Tensor& operator()(c10::DispatchKeySet keys, at::Tensor& input, Args... args) {
    mine_or(
        [&] { return try_call_cpu(op, Pack(op, input, args...), {OutputKind::Inplace, &input}); },
        [&] { return original.call<at::Tensor, at::Tensor, Args...>(keys, input, args...); },
        is_lazy(input) || (is_lazy(args) || ...));
    return input;
  }
};

template <class Pack, class Functional>
struct OverrideOut;

template <class Pack, class... Args>
struct OverrideOut<Pack, at::Tensor(Args...)> : c10::OperatorKernel {
  const OpInfo& op;
  Original original;
  OverrideOut(const OpInfo& o, Original k) : op(o), original(std::move(k)) {}
  at::Tensor& operator()(c10::DispatchKeySet keys, Args... args, at::Tensor& out) {
    mine_or([&] { return try_call_cpu(op, Pack(op, args...), {OutputKind::Given, &out}); },
            [&] { return original.call<at::Tensor, Args..., at::Tensor>(keys, args..., out); },
            is_lazy(out) || (is_lazy(args) || ...));
    return out;
  }
};

// A reduction's arguments by the names that ATen gives them, whatever their order; dims as one
// integer or several. Returns false where another argument is there.
bool read_argument(const std::string& name, const c10::IValue& value, std::vector<int64_t>& dims,
                   ReduceArguments& arguments) {
  if (name == "dim") {
    if (value.isInt()) dims.push_back(value.toInt());
    if (value.isIntList()) dims = value.toIntVector();
    if (!value.isNone()) arguments.dims = dims;
  } else if (name == "keepdim") {
    arguments.keepdim = value.toBool();
  } else if (name == "dtype") {
    arguments.dtype = value.toOptional<at::ScalarType>();
  } else if (name == "correction" || name == "p") {
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
    if (is_lazy(input)) return false;
    ReduceResults results;
    try {
      results = try_reduce_cpu(op, input, arguments, given);
    } catch (const PlanError&) {
      return false;
    }
    torch::jit::drop(*stack, count);
    for (size_t i = 0; i < static_cast<size_t>(op.num_outputs); ++i)
      stack->push_back(given[i] == nullptr ? results[i] : outputs[i]);
    return true;
  }
};

// Whether an overload of ATen is this reduction: one input, dims where the operator has them, and
// nothing else that is unknown here.
bool is_reduction(const c10::FunctionSchema& schema, const OpInfo& op) {
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

// Whether two schemas take arguments of the same types and write to the same ones; names differ.
bool same_types(const c10::FunctionSchema& a, const c10::FunctionSchema& b) {
  if (a.arguments().size() != b.arguments().size()) return false;
  if (a.returns().size() != b.returns().size()) return false;
  for (size_t i = 0; i < a.arguments().size(); ++i) {
    const c10::Argument &x = a.arguments()[i], &y = b.arguments()[i];
    const bool writes_x = x.alias_info() != nullptr && x.alias_info()->isWrite();
    const bool writes_y = y.alias_info() != nullptr && y.alias_info()->isWrite();
    if (writes_x != writes_y || *x.real_type() != *y.real_type()) return false;
  }
  return true;
}

// The overrides that are on, and the names of what they replace.
class Overrides {
 public:
  // Of every operator, or of those named in `only` (separated by commas).
  void enable(std::string_view only) {
    const auto wanted = [&](const char* name) {
      return only.empty() || ("," + std::string(only) + ",").find("," + std::string(name) + ",") !=
                                 std::string::npos;
    };
    add_elementwise(ops::ElementwiseOps{}, wanted);
    for (const OpInfo& op : op_table()) {
      if (op.kind == OpKind::Reduction && wanted(op.name)) add_reduction(op);
    }
  }

  void disable() {
    handles_.clear();
    names_.clear();
  }

  const std::string& names() const { return names_; }

 private:
  template <class... Ops, class Wanted>
  void add_elementwise(OpList<Ops...>, const Wanted& wanted) {
    (add_elementwise<Ops>(wanted), ...);
  }

  template <class Op, class Wanted>
  void add_elementwise(const Wanted& wanted) {
    using Signatures = SignatureOf<Op, 0>;
    using Sig = typename Signatures::Elementwise;
    using Functional = typename Sig::Functional;
    if (!wanted(Op::name)) return;
    const OpInfo& op = *find_op(Op::name);
    add<OverrideFunctional<typename Sig::Pack, Functional>, Functional>(op, Variant::Functional);
    add<OverrideOut<typename Sig::Pack, Functional>, typename Sig::Out>(op, Variant::Out);
    if constexpr ((Op::variants & kInplace) != 0) {
      using Inplace = typename Signatures::Inplace;
      add<OverrideInplace<typename Inplace::Pack, typename Inplace::Inplace>,
          typename Inplace::Inplace>(op, Variant::Inplace);
    }
  }

  // Every overload of the ATen operator of that name whose arguments are those of iterlab's.
  template <class Kernel, class Signature>
  void add(const OpInfo& op, Variant variant) {
    c10::Dispatcher& dispatcher = c10::Dispatcher::singleton();
    const auto mine = dispatcher.findSchema(overload_name(op, variant, 0));
    if (!mine) return;
    for_each_overload(std::string(op.name) + (variant == Variant::Inplace ? "_" : ""),
                      [&](const c10::OperatorHandle& theirs, Original original) {
                        if (!same_types(theirs.schema(), mine->schema())) return;
                        replace(theirs,
                                c10::KernelFunction::makeFromUnboxedFunctor<false, Kernel>(
                                    std::make_unique<Kernel>(op, std::move(original))),
                                c10::impl::CppSignature::make<Signature>());
                      });
  }

  void add_reduction(const OpInfo& op) {
    for_each_overload(op.name, [&](const c10::OperatorHandle& theirs, Original original) {
      if (!is_reduction(theirs.schema(), op)) return;
      replace(theirs,
              c10::KernelFunction::makeFromBoxedFunctor(
                  std::make_unique<OverrideReduction>(op, std::move(original))),
              std::nullopt);
    });
  }

  // The overloads of an ATen operator that have a kernel of their own on the CPU: a composite one
  // is made of others, which are overridden, and must stay visible to autograd.
  template <class Fn>
  static void for_each_overload(const std::string& op_name, const Fn& fn) {
    c10::Dispatcher& dispatcher = c10::Dispatcher::singleton();
    const std::string name = "aten::" + op_name;
    for (const auto& candidate :
         torch::jit::getAllOperatorsFor(c10::Symbol::fromQualString(name))) {
      const auto handle = dispatcher.findSchema({name, candidate->schema().overload_name()});
      if (!handle) continue;
      const auto has = [&](c10::DispatchKey key) { return handle->hasKernelForDispatchKey(key); };
      if (!has(c10::DispatchKey::CPU) && !has(c10::DispatchKey::CompositeExplicitAutograd) &&
          !has(c10::DispatchKey::CompositeExplicitAutogradNonFunctional))
        continue;
      fn(*handle,
         Original{*handle, handle->getComputedKernelForDispatchKey(c10::DispatchKey::CPU)});
    }
  }

  void replace(const c10::OperatorHandle& theirs, c10::KernelFunction kernel,
               std::optional<c10::impl::CppSignature> signature) {
    handles_.push_back(c10::Dispatcher::singleton().registerImpl(
        theirs.operator_name(), c10::DispatchKey::CPU, std::move(kernel), signature, nullptr,
        "registered by iterlab"));
    names_ += (names_.empty() ? "" : ",") + toString(theirs.operator_name());
  }

  std::vector<c10::RegistrationHandleRAII> handles_;
  std::string names_;
};

Overrides& overrides() {
  static auto* const all = new Overrides;  // outlives the dispatcher's own end
  return *all;
}

// torch warns of every process's first override; this one is what the user asked for.
struct Silence : c10::WarningHandler {
  void process(const c10::Warning&) override {}
};

}  // namespace
}  // namespace iterlab

extern "C" {

// Overrides the operators named in `only`, separated by commas; all where it is empty. Returns the
// overloads that are overridden now, or null and leaves the reason in *error.
__attribute__((visibility("default"))) const char* iterlab_override_enable(const char* only,
                                                                           const char** error) {
  static std::string message;
  iterlab::Silence silence;
  const c10::WarningUtils::WarningHandlerGuard guard(&silence);
  try {
    iterlab::overrides().disable();
    iterlab::overrides().enable(only);
    return iterlab::overrides().names().c_str();
  } catch (const std::exception& exception) {
    iterlab::overrides().disable();
    message = exception.what();
    *error = message.c_str();
    return nullptr;
  }
}

__attribute__((visibility("default"))) void iterlab_override_disable() {
  iterlab::overrides().disable();
}
}
