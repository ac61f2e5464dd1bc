// Registers every reduction of the table: schemas, CPU, CUDA, Meta, Autograd and ADInplaceOrView.
#include "engine/op_table.h"
#include "src/composites.h"
#include "src/cuda_backend.h"
#include "src/overload.h"
#include "src/reduction_kernels.h"
#include "src/reduction_schema.h"
#include "src/reduction_spellings.h"

namespace iterlab {
namespace {

using c10::DispatchKey;

// The tags of every overload; Tag::out is not among them: their arguments are by keyword only.
// Note [Tag::out]
const std::vector<at::Tag> kTags = {at::Tag::reduction, at::Tag::pt2_compliant_tag,
                                    at::Tag::flexible_layout};

Overload define(torch::Library& library, const OpInfo& op, Variant variant) {
  const bool out = variant == Variant::Out;
  return {library, op, variant, reduction_overload(op, out), reduction_schema_text(op, out), kTags};
}

template <class Sig>
void register_signature(torch::Library& library, const OpInfo& op) {
  using Functional = typename Sig::Functional;
  using Out = typename Sig::Out;
  const Overload functional = define(library, op, Variant::Functional);
  functional.implement<typename Sig::Compute, Functional>(DispatchKey::CPU, &reduce_cpu);
  functional.implement<typename Sig::Compute, Functional>(DispatchKey::CUDA, &reduce_cuda);
  functional.implement<typename Sig::Compute, Functional>(DispatchKey::Meta, &reduce_meta);
  functional.refuse_other_layouts();
  functional.implement<typename Sig::Autograd, Functional>(DispatchKey::Autograd,
                                                           functional.name());
  const Overload out = define(library, op, Variant::Out);
  out.implement<typename Sig::ComputeOut, Out>(DispatchKey::CPU, &reduce_cpu);
  out.implement<typename Sig::ComputeOut, Out>(DispatchKey::CUDA, &reduce_cuda);
  out.implement<typename Sig::ComputeOut, Out>(DispatchKey::Meta, &reduce_meta);
  out.refuse_other_layouts();
  out.implement<typename Sig::AutogradOut, Out>(DispatchKey::Autograd, out.name());
  out.implement<typename Sig::BumpVersionOut, Out>(DispatchKey::ADInplaceOrView, out.name());
}

using DimsArgument = at::OptionalIntArrayRef;
using DTypeArgument = std::optional<at::ScalarType>;

template <class Outputs>
void register_reduction(torch::Library& library, const OpInfo& op) {
  switch (op.reduction.schema) {
    case ReduceSchema::DimsDType:
      return register_signature<ReductionSignature<Outputs, DimsArgument, bool, DTypeArgument>>(
          library, op);
    case ReduceSchema::Dims:
    case ReduceSchema::RequiredDims:
    case ReduceSchema::KeywordDims:
      return register_signature<ReductionSignature<Outputs, DimsArgument, bool>>(library, op);
    case ReduceSchema::Full:
      return register_signature<ReductionSignature<Outputs>>(library, op);
    case ReduceSchema::Correction:
      return register_signature<
          ReductionSignature<Outputs, DimsArgument, const std::optional<at::Scalar>&, bool>>(
          library, op);
    case ReduceSchema::Order:
      return register_signature<
          ReductionSignature<Outputs, const at::Scalar&, DimsArgument, bool, DTypeArgument>>(
          library, op);
  }
}

TORCH_LIBRARY_FRAGMENT(iterlab, library) {
  library.set_python_module("iterlab");
  register_extremes_of_two(library);  // before those with a dim: Note [Order of overloads]
  for (const OpInfo& op : op_table()) {
    if (op.kind != OpKind::Reduction) continue;
    if (op.num_outputs == 1) {
      register_reduction<TypeList<at::Tensor&>>(library, op);
    } else {
      register_reduction<TypeList<at::Tensor&, at::Tensor&>>(library, op);
    }
    register_spellings(library, op);
  }
}

}  // namespace
}  // namespace iterlab
