// The drop-in: ATen's own operators run iterlab's CPU kernels, while this library has them
// registered. Loaded by iterlab.override_aten alone.
#include "engine/op_table.h"
#include "iterlab/ops.h"
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
        [&] {
          return try_call_cpu(op, Pack(op, input, args...), {OutputKind::Inplace, &input});
        },
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

struct OverrideReduction : c10::OperatorKernel {
  const OpInfo& op;
  Original original;
  OverrideReduction(const OpInfo& o, Original k) : op(o), original(std::move(k)) {}
  at::Tensor operator()(c10::DispatchKeySet keys, const at::Tensor& input,
                        at::OptionalIntArrayRef dim, bool keepdim,
                        std::optional<at::ScalarType> dtype) {
    return mine_or([&] { return try_reduce_cpu(op, input, {dim, keepdim, dtype}, {}); },
                   [&] {
                     return original.call<at::Tensor, at::Tensor, at::OptionalIntArrayRef, bool,
                                          std::optional<at::ScalarType>>(keys, input, dim, keepdim,
                                                                         dtype);
                   },
                   is_lazy(input));
  }
};

struct OverrideReductionOut : c10::OperatorKernel {
  const OpInfo& op;
  Original original;
  OverrideReductionOut(const OpInfo& o, Original k) : op(o), original(std::move(k)) {}
  at::Tensor& operator()(c10::DispatchKeySet keys, const at::Tensor& input,
                         at::OptionalIntArrayRef dim, bool keepdim,
                         std::optional<at::ScalarType> dtype, at::Tensor& out) {
    mine_or(
        [&] {
          return try_reduce_cpu(op, input, {dim, keepdim, dtype}, {OutputKind::Given, &out});
        },
        [&] {
          return original.call<at::Tensor, at::Tensor, at::OptionalIntArrayRef, bool,
                               std::optional<at::ScalarType>, at::Tensor>(keys, input, dim, keepdim,
                                                                          dtype, out);
        },
        is_lazy(input) || is_lazy(out));
    return out;
  }
};

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
      return only.empty() ||
             ("," + std::string(only) + ",").find("," + std::string(name) + ",") !=
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

  void add_reduction(const OpInfo& op) {
    using Sig = ReductionSignature;
    add<OverrideReduction, Sig::Functional>(op, Variant::Functional);
    add<OverrideReductionOut, Sig::Out>(op, Variant::Out);
  }

  // Every overload of the ATen operator of that name whose arguments are those of iterlab's.
  template <class Kernel, class Signature>
  void add(const OpInfo& op, Variant variant) {
    c10::Dispatcher& dispatcher = c10::Dispatcher::singleton();
    const auto mine = dispatcher.findSchema(overload_name(op, variant, 0));
    if (!mine) return;
    const std::string name =
        "aten::" + std::string(op.name) + (variant == Variant::Inplace ? "_" : "");
    for (const auto& candidate :
         torch::jit::getAllOperatorsFor(c10::Symbol::fromQualString(name))) {
      const auto handle = dispatcher.findSchema({name, candidate->schema().overload_name()});
      if (!handle || !same_types(handle->schema(), mine->schema())) continue;
      if (!handle->hasComputedKernelForDispatchKey(c10::DispatchKey::CPU)) continue;
      Original original{*handle,
                        handle->getComputedKernelForDispatchKey(c10::DispatchKey::CPU)};
      handles_.push_back(dispatcher.registerImpl(
          handle->operator_name(), c10::DispatchKey::CPU,
          c10::KernelFunction::makeFromUnboxedFunctor<false, Kernel>(
              std::make_unique<Kernel>(op, std::move(original))),
          c10::impl::CppSignature::make<Signature>(), nullptr, "registered by iterlab"));
      names_ += (names_.empty() ? "" : ",") + toString(handle->operator_name());
    }
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
