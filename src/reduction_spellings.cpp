// Other spellings of a reduction's arguments: composites, which call the overload that they stand
// for.
#include "src/reduction_spellings.h"

#include "src/reduction_schema.h"
#include "src/transforms.h"

namespace iterlab {
namespace {

using torch::jit::Stack;

// The arguments of the overload that is called, from those of the spelling.
using Rewrite = void (*)(Stack& arguments);

struct Spelling : c10::OperatorKernel {
  c10::OperatorHandle called;
  Rewrite rewrite;
  Spelling(const c10::OperatorName& name, Rewrite r)
      : called(c10::Dispatcher::singleton().findSchemaOrThrow(name.name.c_str(),
                                                              name.overload_name.c_str())),
        rewrite(r) {}

  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet, Stack* stack) const {
    Stack arguments = torch::jit::pop(*stack, op.schema().arguments().size());
    rewrite(arguments);
    called.callBoxed(arguments);
    stack->insert(stack->end(), arguments.begin(), arguments.end());
  }
};

c10::IValue correction_of(const c10::IValue& unbiased) {
  return at::Scalar(int64_t{unbiased.toBool()});
}

// input, unbiased, outputs... to input, dim, correction, keepdim, outputs...
void of_all(Stack& arguments) {
  arguments[1] = correction_of(arguments[1]);
  arguments.insert(arguments.begin() + 1, c10::IValue());
  arguments.insert(arguments.begin() + 3, false);
}

// input, dim, unbiased, keepdim, outputs...
void of_dims(Stack& arguments) { arguments[2] = correction_of(arguments[2]); }

void keep(Stack&) {}

// input, p, dim, keepdim, dtype, outputs...
void of_name(Stack& arguments) {
  TORCH_CHECK(arguments[1].toStringRef() == "fro",
              "iterlab::norm: expected p to be a number or 'fro', got '",
              arguments[1].toStringRef(), "'");
  arguments[1] = at::Scalar(2);
}

// Defines `overload` and its out variant, with `replacing` where the called schema has `replaced`.
// Outputs are by keyword only.
void define(torch::Library& library, const OpInfo& op, const std::string& overload,
            const std::string& replaced, const std::string& replacing, Rewrite rewrite) {
  for (const bool out : {false, true}) {
    std::string schema = reduction_schema_text(op, out);
    schema = schema.substr(schema.find('('));
    const bool starred = replaced.find('*') == std::string::npos;
    schema.replace(schema.find(replaced), replaced.size(),
                   replacing + (out && !starred ? ", *" : ""));
    const c10::OperatorName name("iterlab::" + std::string(op.name),
                                 overload + (out ? "_out" : ""));
    library.def((name.name + "." + name.overload_name + schema).c_str(),
                {at::Tag::reduction, at::Tag::pt2_compliant_tag, at::Tag::flexible_layout});
    for (const auto key : {c10::DispatchKey::CompositeImplicitAutograd,
                           c10::DispatchKey::FuncTorchBatchedDecomposition})
      register_rule(name, key, std::make_unique<Spelling>(reduction_overload(op, out), rewrite));
  }
}

}  // namespace

void register_spellings(torch::Library& library, const OpInfo& op) {
  if (op.reduction.schema == ReduceSchema::Correction) {
    const std::string all = ", int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False";
    define(library, op, "dim", all, ", int[1]? dim, bool unbiased, bool keepdim=False", of_dims);
    define(library, op, "unbiased", all, ", bool unbiased", of_all);
  }
  if (op.reduction.schema == ReduceSchema::Order) {
    define(library, op, "ord", "Scalar p=2", "Scalar ord", keep);
    define(library, op, "name", "Scalar p=2", "str p", of_name);
  }
}

}  // namespace iterlab
