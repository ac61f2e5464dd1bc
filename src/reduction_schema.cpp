// The schemas of reductions, as text.
#include "src/reduction_schema.h"

namespace iterlab {
namespace {

// The arguments after `input`: those by position, and those by keyword only.
struct ArgumentTexts {
  const char* positional;
  const char* keyword_only;
};

ArgumentTexts argument_texts(ReduceSchema schema) {
  switch (schema) {
    case ReduceSchema::DimsDType:
      return {", int[1]? dim=None, bool keepdim=False", ", ScalarType? dtype=None"};
    case ReduceSchema::Dims:
      return {", int[1]? dim=None, bool keepdim=False", ""};
    case ReduceSchema::RequiredDims:
      return {", int[1]? dim, bool keepdim=False", ""};
    case ReduceSchema::KeywordDims:
      return {"", ", int[1]? dim=None, bool keepdim=False"};
    case ReduceSchema::Correction:
      return {", int[1]? dim=None", ", Scalar? correction=None, bool keepdim=False"};
    case ReduceSchema::Order:
      return {", Scalar p=2, int[1]? dim=None, bool keepdim=False", ", ScalarType? dtype=None"};
    default:
      return {"", ""};
  }
}

}  // namespace

c10::OperatorName reduction_overload(const OpInfo& op, bool out) {
  std::string overload = op.reduction.overload;
  if (out) overload += overload.empty() ? "out" : "_out";
  return {"iterlab::" + std::string(op.name), overload};
}

std::string reduction_schema_text(const OpInfo& op, bool out) {
  const c10::OperatorName name = reduction_overload(op, out);
  const ArgumentTexts texts = argument_texts(op.reduction.schema);
  std::string keyword_only = texts.keyword_only;
  std::string results;
  for (int i = 0; i < op.num_outputs; ++i) {
    const std::string alias = i == 0 ? "(a!)" : "(b!)";
    const std::string output = op.reduction.output_names[static_cast<size_t>(i)];
    if (out) keyword_only += ", Tensor" + alias + " " + output;
    results += (i == 0 ? "Tensor" : ", Tensor") + (out ? alias : "");
    if (op.num_outputs > 1) results += " " + output;
  }
  if (op.num_outputs > 1) results = "(" + results + ")";
  return name.name + (name.overload_name.empty() ? "" : "." + name.overload_name) +
         "(Tensor input" + texts.positional + (keyword_only.empty() ? "" : ", *") + keyword_only +
         ") -> " + results;
}

}  // namespace iterlab
