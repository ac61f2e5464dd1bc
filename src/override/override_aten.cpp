// The drop-in: ATen's own operators run iterlab's CPU kernels, while this library has them
// registered. Loaded by iterlab.override_aten alone.
#include "engine/op_table.h"
#include "iterlab/ops.h"
#include "src/override/elementwise.h"
#include "src/override/rearranged.h"
#include "src/override/reduction.h"
#include "src/schema.h"

#include <torch/csrc/jit/runtime/operator.h>

#include <deque>
#include <string_view>
#include <utility>
#include <vector>

namespace iterlab {
namespace {

bool is_written(const c10::Argument& argument) {
  return argument.alias_info() != nullptr && argument.alias_info()->isWrite();
}

// Whether a schema of ATen takes arguments of the same types as one of iterlab's, and writes to the
// same ones; names differ. `operands_only`: it lacks the operator's parameters.
bool same_types(const c10::FunctionSchema& theirs, const c10::FunctionSchema& mine,
                const OpInfo& op, bool operands_only) {
  const std::vector<c10::Argument>& all = mine.arguments();
  std::vector<c10::Argument> expected(all.begin(), all.begin() + op.num_inputs);
  const auto after = all.begin() + op.num_inputs + (operands_only ? op.num_parameters : 0);
  expected.insert(expected.end(), after, all.end());
  const auto same = [](const c10::Argument& a, const c10::Argument& b) {
    return is_written(a) == is_written(b) && *a.real_type() == *b.real_type();
  };
  return theirs.returns().size() == mine.returns().size() &&
         std::equal(theirs.arguments().begin(), theirs.arguments().end(), expected.begin(),
                    expected.end(), same);
}

// The overrides that are on, and the names of what they replace.
class Overrides {
 public:
  // Without `registers`, only the names are found.
  explicit Overrides(bool registers) : registers_(registers) {}

  // Of every operator, or of those named in `only` (separated by commas).
  void enable(std::string_view only) {
    const auto wanted = [&](const char* name) {
      return only.empty() || ("," + std::string(only) + ",").find("," + std::string(name) + ",") !=
                                 std::string::npos;
    };
    add_elementwise(ops::ElementwiseOps{}, wanted);
    if (wanted(ops::ClampBetween::name)) add_clamp(*find_op(ops::ClampBetween::name));
    if (wanted(ops::EluBackward::name))
      add_rearranged<EluBackwardArguments>(*find_op(ops::EluBackward::name), "", "grad_input");
    if (wanted(ops::Polygamma::name))
      add_rearranged<PolygammaArguments>(*find_op(ops::Polygamma::name), "", "out");
    for (const OpInfo& op : op_table()) {
      if (op.kind == OpKind::Reduction && wanted(op.name)) add_reduction(op);
    }
  }

  void disable() {
    handles_.clear();
    names_.clear();
    if (!kernels_.empty()) retired_.push_back(std::exchange(kernels_, {}));
    if (retired_.size() > kMostRetired) retired_.pop_front();
  }

  const std::string& names() const { return names_; }

 private:
  template <class... Ops, class Wanted>
  void add_elementwise(OpList<Ops...>, const Wanted& wanted) {
    (add_elementwise<Ops>(wanted), ...);
  }

  template <class Op, class Wanted>
  void add_elementwise(const Wanted& wanted) {
    if (!wanted(Op::name)) return;
    const OpInfo& op = *find_op(Op::name);
    // Overloads whose first operand is a number call those with tensors.
    const auto with_numbers = [&]<size_t... others>(std::index_sequence<others...>) {
      (add_signatures<Op, static_cast<uint32_t>(others << 1)>(op), ...);
    };
    with_numbers(std::make_index_sequence<size_t{1} << (Op::num_inputs - 1)>{});
  }

  // The overloads of an operator whose inputs in `numbers` are numbers: with its parameters, and
  // without them where they have defaults.
  template <class Op, uint32_t numbers>
  void add_signatures(const OpInfo& op) {
    using Full = SignatureOf<Op, numbers>;
    add_variants<typename Full::Elementwise::Pack, typename Full::Elementwise>(op, numbers, false);
    add_inplace<Op, numbers, typename Full::Inplace::Pack, typename Full::Inplace>(op, false);
    if constexpr (has_defaults<Op>()) {
      using Short = OperandSignatureOf<Op, numbers>;
      add_variants<typename Short::Pack, typename Short::Elementwise>(op, numbers, true);
      add_inplace<Op, numbers, typename Short::Pack, typename Short::Inplace>(op, true);
    }
  }

  template <class Pack, class Signature>
  void add_variants(const OpInfo& op, uint32_t numbers, bool operands_only) {
    using Functional = typename Signature::Functional;
    add<OverrideFunctional<Pack, Functional>, Functional>(op, Variant::Functional, numbers,
                                                          operands_only);
    add<OverrideOut<Pack, Functional>, typename Signature::Out>(op, Variant::Out, numbers,
                                                                operands_only);
  }

  template <class Op, uint32_t numbers, class Pack, class Signature>
  void add_inplace(const OpInfo& op, bool operands_only) {
    if constexpr ((Op::variants & kInplace) != 0) {
      using Inplace = typename Signature::Inplace;
      add<OverrideInplace<Pack, Inplace>, Inplace>(op, Variant::Inplace, numbers, operands_only);
    }
  }

  // Every overload of the ATen operator of that name whose arguments are those of iterlab's.
  template <class Kernel, class Signature>
  void add(const OpInfo& op, Variant variant, uint32_t numbers, bool operands_only) {
    const auto mine = c10::Dispatcher::singleton().findSchema(overload_name(op, variant, numbers));
    if (!mine) return;
    for_each_overload(std::string(op.name) + (variant == Variant::Inplace ? "_" : ""),
                      [&](const c10::OperatorHandle& theirs, Original original) {
                        if (!same_types(theirs.schema(), mine->schema(), op, operands_only)) return;
                        // With numbers, a composite overload is the one with tensors.
                        if (numbers != 0 && !theirs.hasKernelForDispatchKey(c10::DispatchKey::CPU))
                          return;
                        replace(theirs,
                                c10::KernelFunction::makeFromUnboxedFunctor<false, Kernel>(
                                    std::make_unique<Kernel>(op, std::move(original),
                                                             lacking(op, numbers, operands_only))),
                                c10::impl::CppSignature::make<Signature>());
                      });
  }

  // The dtypes that ATen's kernel of an overload lacks.
  static DTypeSet lacking(const OpInfo& op, uint32_t numbers, bool operands_only) {
    if (operands_only) return {};
    const bool clamps = &op == find_op(ops::ClampMin::name) || &op == find_op(ops::ClampMax::name);
    return clamps && numbers != 0 ? op.beyond_torch | kBool : op.beyond_torch;
  }

  // As the clamps with one bound, those with numbers lack bool.
  void add_clamp(const OpInfo& op) {
    using Numbers = ClampArguments<at::Scalar>;
    using Tensors = ClampArguments<at::Tensor>;
    add_rearranged<Numbers>(op, "", "out", kBool);
    add_rearranged<Tensors>(op, "Tensor", "Tensor_out");
    add_one<OverrideInplace<Numbers, Numbers::Inplace>, Numbers::Inplace>(op, Numbers::aten_inplace,
                                                                          "", kBool);
    add_one<OverrideInplace<Tensors, Tensors::Inplace>, Tensors::Inplace>(op, Tensors::aten_inplace,
                                                                          "Tensor", {});
  }

  template <class Pack>
  void add_rearranged(const OpInfo& op, const char* functional, const char* out,
                      DTypeSet refused = {}) {
    using Functional = typename Pack::Functional;
    add_one<OverrideFunctional<Pack, Functional>, Functional>(op, Pack::aten, functional, refused);
    add_one<OverrideOut<Pack, Functional>, typename Pack::Out>(op, Pack::aten, out, refused);
  }

  template <class Kernel, class Signature>
  void add_one(const OpInfo& op, const char* name, const char* overload, DTypeSet refused) {
    const c10::OperatorHandle theirs =
        c10::Dispatcher::singleton().findSchemaOrThrow(name, overload);
    replace(theirs,
            c10::KernelFunction::makeFromUnboxedFunctor<false, Kernel>(
                std::make_unique<Kernel>(op, original_of(theirs), refused)),
            c10::impl::CppSignature::make<Signature>());
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
      fn(*handle, original_of(*handle));
    }
  }

  static Original original_of(const c10::OperatorHandle& handle) {
    return {handle, handle.getComputedKernelForDispatchKey(c10::DispatchKey::CPU)};
  }

  void replace(const c10::OperatorHandle& theirs, c10::KernelFunction kernel,
               std::optional<c10::impl::CppSignature> signature) {
    names_ += (names_.empty() ? "" : ",") + toString(theirs.operator_name());
    if (!registers_) return;
    kernels_.push_back(kernel);
    handles_.push_back(c10::Dispatcher::singleton().registerImpl(
        theirs.operator_name(), c10::DispatchKey::CPU, std::move(kernel), signature, nullptr,
        "registered by iterlab"));
  }

  // A thread may be inside a kernel while it is taken back: those of the latest times live on.
  static constexpr size_t kMostRetired = 16;

  const bool registers_;
  std::vector<c10::RegistrationHandleRAII> handles_;
  std::string names_;
  std::vector<c10::KernelFunction> kernels_;
  std::deque<std::vector<c10::KernelFunction>> retired_;
};

Overrides& overrides() {
  static auto* const all = new Overrides(/*registers=*/true);  // outlives the dispatcher's own end
  return *all;
}

// torch warns of every process's first override; this one is what the user asked for.
struct Silence : c10::WarningHandler {
  void process(const c10::Warning&) override {}
};

// What `fn` gives; or null, and leaves the reason in *error.
template <class Fn>
const char* or_error(const char** error, const Fn& fn) {
  static std::string message;
  try {
    return fn();
  } catch (const std::exception& exception) {
    message = exception.what();
    *error = message.c_str();
    return nullptr;
  }
}

}  // namespace
}  // namespace iterlab

extern "C" {

// Overrides the operators named in `only`, separated by commas; all where it is empty. Returns the
// overloads that are overridden now, or null and leaves the reason in *error.
__attribute__((visibility("default"))) const char* iterlab_override_enable(const char* only,
                                                                           const char** error) {
  iterlab::Silence silence;
  const c10::WarningUtils::WarningHandlerGuard guard(&silence);
  const char* const names = iterlab::or_error(error, [&] {
    iterlab::overrides().disable();
    iterlab::overrides().enable(only);
    return iterlab::overrides().names().c_str();
  });
  if (names == nullptr) iterlab::overrides().disable();
  return names;
}

// The overloads that iterlab_override_enable would override, without doing it; as it returns them.
__attribute__((visibility("default"))) const char* iterlab_override_names(const char* only,
                                                                          const char** error) {
  static std::string names;
  return iterlab::or_error(error, [&] {
    iterlab::Overrides trial(/*registers=*/false);
    trial.enable(only);
    names = trial.names();
    return names.c_str();
  });
}

__attribute__((visibility("default"))) void iterlab_override_disable() {
  iterlab::overrides().disable();
}
}
