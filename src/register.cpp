// Registers every operator of the table: schemas, CPU, CUDA, Meta, Autograd and ADInplaceOrView.
#include "engine/op_table.h"
#include "iterlab/ops.h"
#include "src/cuda_backend.h"
#include "src/overload.h"
#include "src/signature.h"

#include <algorithm>

namespace iterlab {
namespace {

using c10::DispatchKey;

// Note [Tag::out]
// The tag makes Inductor lower the functional overload to the out= one, with a buffer that it
// plans. It does that wrong with symbolic sizes before torch 2.14, and where an argument is by
// keyword only, up to 2.14 at least: the argument is given twice. Those keep the overload that they
// call, and lose only the planned buffer.
[[maybe_unused]] bool has_keyword_only(const OpInfo& op) {
  return std::any_of(op.parameters.begin(), op.parameters.begin() + op.num_parameters,
                     [](const Parameter& parameter) { return parameter.keyword_only; });
}

// The tags of an overload: those of every one, Tag::inplace where this torch has it, and Tag::out
// where it does good.
std::vector<at::Tag> tags_of([[maybe_unused]] const OpInfo& op, [[maybe_unused]] Variant variant) {
  std::vector<at::Tag> tags = {at::Tag::pointwise, at::Tag::pt2_compliant_tag,
                               at::Tag::flexible_layout};
#if TORCH_VERSION_MAJOR * 100 + TORCH_VERSION_MINOR >= 213
  if (variant == Variant::Inplace) tags.push_back(at::Tag::inplace);
#endif
#if TORCH_VERSION_MAJOR * 100 + TORCH_VERSION_MINOR >= 214
  if (variant == Variant::Out && !has_keyword_only(op)) tags.push_back(at::Tag::out);
#endif
  return tags;
}

Overload define(torch::Library& library, const OpInfo& op, Variant variant,
                uint32_t scalar_inputs) {
  return {library,
          op,
          variant,
          overload_name(op, variant, scalar_inputs),
          schema_text(op, variant, scalar_inputs),
          tags_of(op, variant)};
}

// Functional or out: computed on the CPU, shaped on Meta, differentiated or refused, its writes
// counted.
template <class Sig, class Call>
void register_functional(torch::Library& library, const OpInfo& op, uint32_t scalar_inputs,
                         Call cpu, Call meta) {
  const Overload overload = define(library, op, Variant::Functional, scalar_inputs);
  overload.implement<typename Sig::Compute, typename Sig::Functional>(DispatchKey::CPU, cpu);
  overload.implement<typename Sig::Compute, typename Sig::Functional>(DispatchKey::CUDA,
                                                                      &call_cuda);
  overload.implement<typename Sig::Compute, typename Sig::Functional>(DispatchKey::Meta, meta);
  overload.refuse_other_layouts();
  overload.implement<typename Sig::Autograd, typename Sig::Functional>(DispatchKey::Autograd,
                                                                       overload.name());
}

template <class Sig, class Call>
void register_out(torch::Library& library, const OpInfo& op, uint32_t scalar_inputs, Call cpu,
                  Call meta) {
  const Overload overload = define(library, op, Variant::Out, scalar_inputs);
  overload.implement<typename Sig::ComputeOut, typename Sig::Out>(DispatchKey::CPU, cpu);
  overload.implement<typename Sig::ComputeOut, typename Sig::Out>(DispatchKey::CUDA, &call_cuda);
  overload.implement<typename Sig::ComputeOut, typename Sig::Out>(DispatchKey::Meta, meta);
  overload.refuse_other_layouts();
  overload.implement<typename Sig::AutogradOut, typename Sig::Out>(DispatchKey::Autograd,
                                                                   overload.name());
  overload.implement<typename Sig::BumpVersionOut, typename Sig::Out>(DispatchKey::ADInplaceOrView,
                                                                      overload.name());
}

template <class Sig>
void register_inplace(torch::Library& library, const OpInfo& op, uint32_t scalar_inputs) {
  const Overload overload = define(library, op, Variant::Inplace, scalar_inputs);
  overload.implement<typename Sig::Compute, typename Sig::Inplace>(DispatchKey::CPU, &call_cpu);
  overload.implement<typename Sig::Compute, typename Sig::Inplace>(DispatchKey::CUDA, &call_cuda);
  overload.implement<typename Sig::Compute, typename Sig::Inplace>(DispatchKey::Meta, &call_meta);
  overload.refuse_other_layouts();
  overload.implement<typename Sig::Autograd, typename Sig::Inplace>(DispatchKey::Autograd,
                                                                    overload.name());
  overload.implement<typename Sig::BumpVersion, typename Sig::Inplace>(DispatchKey::ADInplaceOrView,
                                                                       overload.name());
}

// Note [Order of overloads]
// torch.ops.iterlab.NAME tries overloads in the order in which they were registered, at 6 us for
// each that does not fit. Where one wants a number and gets a tensor, the error holds the tensor's
// elements as text, which takes milliseconds, and seconds where they are on a GPU. So overloads
// that differ first in an input are in the order tensor, number: one that is tried in vain then has
// a tensor's place for a number. torch looks at no argument where there are more than a schema has,
// so those with out= are last; but not where parameters are left out: there each follows its
// functional one.
constexpr uint32_t scalar_inputs_in_order(uint32_t nth, int num_inputs) {
  uint32_t scalar_inputs = 0;
  for (int i = 0; i < num_inputs; ++i) scalar_inputs |= (nth >> (num_inputs - 1 - i) & 1u) << i;
  return scalar_inputs;
}

// Calls fn.operator()<scalar_inputs>() for the overloads of one operator whose inputs in
// `scalar_inputs` are numbers. Note [Number operands]
template <class Op, uint32_t nth = 0, class Fn>
void for_overloads(const Fn& fn) {
  constexpr bool several_promoted = (Op::promoted_inputs & (Op::promoted_inputs - 1)) != 0;
  constexpr uint32_t may_be_numbers =
      (several_promoted ? Op::promoted_inputs : 0) | Op::number_inputs;
  constexpr uint32_t scalar_inputs = scalar_inputs_in_order(nth, Op::num_inputs);
  if constexpr ((scalar_inputs & ~may_be_numbers) == 0) fn.template operator()<scalar_inputs>();
  if constexpr (nth + 1 < 1u << Op::num_inputs) for_overloads<Op, nth + 1>(fn);
}

template <class Op>
void register_elementwise(torch::Library& library) {
  const OpInfo& op = *find_op(Op::name);
  constexpr bool out_follows = !Op::parameters.empty();  // Note [Order of overloads]
  const auto register_out_of = [&]<uint32_t scalar_inputs>() {
    register_out<typename SignatureOf<Op, scalar_inputs>::Elementwise>(library, op, scalar_inputs,
                                                                       &call_cpu, &call_meta);
  };
  for_overloads<Op>([&]<uint32_t scalar_inputs>() {
    using Sig = typename SignatureOf<Op, scalar_inputs>::Elementwise;
    constexpr bool has_tensor = scalar_inputs != (1u << Op::num_inputs) - 1;
    if constexpr (has_tensor) {
      register_functional<Sig>(library, op, scalar_inputs, &call_cpu, &call_meta);
    } else {
      const Overload overload = define(library, op, Variant::Functional, scalar_inputs);
      overload.implement<typename Sig::ComputeNumbers, typename Sig::Functional>(
          DispatchKey::CompositeImplicitAutograd, overload_name(op, Variant::Functional, 0));
    }
    if constexpr (out_follows) register_out_of.template operator()<scalar_inputs>();
  });
  for_overloads<Op>([&]<uint32_t scalar_inputs>() {
    if constexpr (!out_follows) register_out_of.template operator()<scalar_inputs>();
    if constexpr ((Op::variants & kInplace) != 0 && (scalar_inputs & 1u) == 0) {
      using Inplace = typename SignatureOf<Op, scalar_inputs>::Inplace;
      register_inplace<Inplace>(library, op, scalar_inputs);
    }
  });
}

template <class... Ops>
void register_all_elementwise(torch::Library& library, OpList<Ops...>) {
  (register_elementwise<Ops>(library), ...);
}

TORCH_LIBRARY(iterlab, library) {
  library.set_python_module("iterlab");
  register_all_elementwise(library, ops::ElementwiseOps{});
}

}  // namespace
}  // namespace iterlab
