// Schemas, as text.
#include "src/schema.h"

namespace iterlab {
namespace {

const char* schema_type(const Parameter& parameter) {
  switch (parameter.kind) {
    case ParameterKind::DType:
      return "ScalarType";
    case ParameterKind::MemoryFormat:
      return "MemoryFormat?";
    case ParameterKind::Float:
      return "float";
    case ParameterKind::OptionalFloat:
      return "float?";
    case ParameterKind::Int:
      return "int";
    case ParameterKind::Bool:
      return "bool";
    case ParameterKind::Choice:
      return takes_none(parameter) ? "str?" : "str";
    default:
      return "Scalar";
  }
}

std::string parameter_text(const Parameter& parameter) {
  std::string text = std::string(", ") + schema_type(parameter) + " " + parameter.name;
  if (parameter.default_value != nullptr) text += std::string("=") + parameter.default_value;
  return text;
}

std::string operand_type(Variant variant, uint32_t scalar_inputs, int i) {
  if ((scalar_inputs >> i & 1u) != 0) return "Scalar ";
  return i == 0 && variant == Variant::Inplace ? "Tensor(a!) " : "Tensor ";
}

std::string arguments_text(const OpInfo& op, Variant variant, uint32_t scalar_inputs) {
  std::string text;
  for (int i = 0; i < op.num_inputs; ++i) {
    text += (i == 0 ? "" : ", ") + operand_type(variant, scalar_inputs, i) +
            op.inputs[static_cast<size_t>(i)];
  }
  bool starred = false;
  const auto keyword_only = [&](const std::string& argument) {
    text += (starred ? "" : ", *") + argument;
    starred = true;
  };
  for (int i = 0; i < op.num_parameters; ++i) {
    const Parameter& parameter = op.parameters[static_cast<size_t>(i)];
    if (parameter.keyword_only) {
      keyword_only(parameter_text(parameter));
    } else {
      text += parameter_text(parameter);
    }
  }
  if (variant == Variant::Out) keyword_only(", Tensor(a!) out");
  return "(" + text + ")";
}

}  // namespace

c10::OperatorName overload_name(const OpInfo& op, Variant variant, uint32_t scalar_inputs) {
  std::string overload;
  if (scalar_inputs != 0) {
    overload = "Scalar";
    for (int i = 0; i < op.num_inputs; ++i) {
      if ((scalar_inputs >> i & 1u) != 0)
        overload += std::string("_") + op.inputs[static_cast<size_t>(i)];
    }
  }
  if (variant == Variant::Out) overload += overload.empty() ? "out" : "_out";
  return {"iterlab::" + std::string(op.name) + (variant == Variant::Inplace ? "_" : ""), overload};
}

std::string schema_text(const OpInfo& op, Variant variant, uint32_t scalar_inputs) {
  const c10::OperatorName name = overload_name(op, variant, scalar_inputs);
  return name.name + (name.overload_name.empty() ? "" : "." + name.overload_name) +
         arguments_text(op, variant, scalar_inputs) +
         (variant == Variant::Functional ? " -> Tensor" : " -> Tensor(a!)");
}

}  // namespace iterlab
