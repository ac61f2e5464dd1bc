// Tensors to operands and back.
#include "src/operands.h"

#include "engine/result_type.h"
#include "src/output_memory.h"

#include <ATen/EmptyTensor.h>
#include <ATen/Parallel.h>
#include <ATen/ScalarOps.h>
#include <ATen/ops/as_strided.h>

#include <cmath>

namespace iterlab {

void Arguments::add_operand(const at::Scalar& number) {
  const at::Scalar value = number.isSymbolic() ? as_scalar(as_number(number)) : number;
  at::Tensor& tensor = wrapped[num_wrapped++] = at::native::wrapped_scalar_tensor(value);
  numbers[num_tensors] = &number;
  tensors[num_tensors++] = &tensor;
}

std::optional<at::Scalar> Arguments::number(int i) const {
  if (numbers[i] != nullptr) return *numbers[i];
  const at::Tensor& tensor = *tensors[i];
  if (!tensor.unsafeGetTensorImpl()->is_wrapped_number() || !tensor.is_cpu()) return std::nullopt;
  return tensor.item();
}

void Arguments::add_parameter(const at::Scalar& value) {
  add_number(as_number(value));
  if (value.isSymbolic()) symbolic[num_parameters - 1] = &value;
}

void Arguments::add_parameter(const std::optional<double>& value) {
  add_number(value ? Number::of(*value) : Number::none());
}

void Arguments::add_choice(const Parameter& parameter,
                           const std::optional<c10::string_view>& value) {
  int64_t position = -1;
  for (int64_t c = 0; c < parameter.num_choices; ++c) {
    const char* const choice = parameter.choices[static_cast<size_t>(c)];
    if (choice == nullptr ? !value : value && *value == choice) position = c;
  }
  add_number(Number::of(position));
}

at::Scalar as_scalar(const Number& number) {
  switch (number.kind) {
    case Number::Kind::Bool:
      return number.integer != 0;
    case Number::Kind::Int:
      return number.integer;
    case Number::Kind::Complex:
      return c10::complex<double>(number.real, number.imag);
    default:
      return number.real;
  }
}

Operand as_operand(const at::Tensor& tensor) {
  Operand operand;
  const auto sizes = tensor.sizes(), strides = tensor.strides();
  operand.sizes = {sizes.data(), sizes.size()};
  operand.strides = {strides.data(), strides.size()};
  operand.dtype = tensor.scalar_type();
  operand.is_wrapped_number = tensor.unsafeGetTensorImpl()->is_wrapped_number();
  operand.data = tensor.has_storage() ? tensor.const_data_ptr() : nullptr;
  return operand;
}

at::IntArrayRef as_sizes(const Dims& dims) {
  return {dims.data(), static_cast<size_t>(dims.size())};
}

Number as_number(const at::Scalar& scalar) {
  if (scalar.isSymbolic()) {
    return scalar.isBoolean()         ? Number::of(true)
           : scalar.isIntegral(false) ? Number::of(int64_t{1})
                                      : Number::of(1.0);
  }
  if (scalar.isBoolean()) return Number::of(scalar.toBool());
  if (scalar.isIntegral(false)) return Number::of(scalar.toLong());
  if (scalar.isFloatingPoint()) return Number::of(scalar.toDouble());
  const auto value = scalar.toComplexDouble();
  return Number::of(value.real(), value.imag());
}

namespace {
constexpr c10::DispatchKeySet kCpu(c10::DispatchKey::CPU);
}

at::Tensor empty_cpu(const Dims& sizes, const Dims& strides, DType dtype) {
  bool contiguous = true;  // strides of size-1 dims count: those of a packed tensor are given
  int64_t expected = 1;
  for (int d = sizes.size() - 1; d >= 0; --d) {
    contiguous = contiguous && strides[d] == expected;
    expected *= std::max<int64_t>(sizes[d], 1);
  }
  return contiguous ? empty_cpu(as_sizes(sizes), dtype)
                    : at::detail::empty_strided_generic(as_sizes(sizes), as_sizes(strides),
                                                        &output_memory(), kCpu, dtype);
}

at::Tensor empty_cpu(at::IntArrayRef sizes, DType dtype) {
  return at::detail::empty_generic(sizes, &output_memory(), kCpu, dtype, std::nullopt);
}

Parallel torch_parallel() {
  return {at::in_parallel_region() ? 1 : at::get_num_threads(),
          [](int64_t count, int64_t grain, RangeBody body) {
            at::parallel_for(0, count, grain,
                             [&](int64_t begin, int64_t end) { body(begin, end); });
          }};
}

void check_devices(const OpInfo& op, const Arguments& arguments, const at::Tensor* output,
                   at::DeviceType device) {
  const auto is_there = [&](const at::Tensor& tensor) {
    return tensor.unsafeGetTensorImpl()->device_type() == device;
  };
  const auto refuse = [&](const at::Tensor& tensor) {
    throw PlanError(PlanError::Kind::Runtime, op,
                    "expected all operands on " + at::DeviceTypeName(device, true) +
                        ", got one on " + tensor.device().str());
  };
  for (int i = 0; i < arguments.num_tensors; ++i) {
    const at::Tensor& tensor = *arguments.tensors[i];
    const bool is_number = tensor.dim() == 0 && tensor.device().is_cpu();
    if (!is_there(tensor) && !is_number) refuse(tensor);
  }
  if (output != nullptr && !is_there(*output)) refuse(*output);
}

at::ScalarType number_dtype(const OpInfo& op, const Arguments& arguments) {
  Operands operands;
  operands.num_inputs = arguments.num_tensors;
  operands.default_dtype = c10::get_default_dtype_as_scalartype();
  for (int i = 0; i < arguments.num_tensors; ++i) {
    operands.input(i) = as_operand(*arguments.tensors[i]);
  }
  int promoted_by = 0;
  return with_torch_errors([&] { return common_dtype(operands, op, promoted_by); });
}

namespace {

// Raises where `number` has no value of `dtype`, as at::Scalar does, with its text. The fraction of
// a number beside integers is cut first. Half types are not what formulas compute in: they are for
// numbers that ATen's kernels keep as they keep elements.
void check_fits(const OpInfo& op, const at::Scalar& given, DType dtype) {
  if (given.isSymbolic()) return;
  const bool cut = given.isFloatingPoint() && is_integral(dtype, false);
  const at::Scalar number = cut ? at::Scalar(std::trunc(given.toDouble())) : given;
  const auto check = [&](auto zero) {
    try {
      static_cast<void>(number.to<decltype(zero)>());
    } catch (const std::runtime_error& error) {
      throw PlanError(PlanError::Kind::Runtime, op, error.what());
    }
  };
  if (number.isIntegral(true) && number.toLong() >= 0 && number.toLong() <= 127) return;
  if (dtype == DType::Half) return check(c10::Half{});
  if (dtype == DType::BFloat16) return check(c10::BFloat16{});
  if (dtype == DType::ComplexHalf) return check(c10::complex<c10::Half>{});
  switch (compute_dtype(dtype)) {
#define ITERLAB_CASE(type, name, text) \
  case DType::name:                    \
    check(type{});                     \
    break;
    ITERLAB_FORALL_COMPUTE_TYPES(ITERLAB_CASE)
#undef ITERLAB_CASE
    default:
      break;
  }
}

}  // namespace

void check_parameters(const OpInfo& op, const Arguments& arguments, DType common_dtype) {
  const auto refuse = [&](const std::string& what) {
    throw PlanError(PlanError::Kind::Runtime, op, what);
  };
  int n = 0;
  for (int i = 0; i < op.num_parameters; ++i) {
    const Parameter& parameter = op.parameters[static_cast<size_t>(i)];
    if (!reaches_functor(parameter.kind)) continue;
    const Number& value = arguments.parameters[n++];
    const auto name = [&] { return std::string(parameter.name); };
    if (parameter.kind == ParameterKind::Choice && value.integer < 0) {
      std::string choices;
      for (int c = 0; c < parameter.num_choices; ++c) {
        const char* const choice = parameter.choices[static_cast<size_t>(c)];
        choices += (c == 0 ? "" : " or ") +
                   (choice == nullptr ? std::string("None") : "'" + std::string(choice) + "'");
      }
      refuse("expected " + name() + " to be " + choices + ", got another string");
    }
    if (parameter.at_least_zero && value.real < 0)
      refuse("expected " + name() + " to be at least 0");
    const bool is_small =
        value.kind == Number::Kind::Int && 0 <= value.integer && value.integer < 128;
    if (is_small) continue;  // a value of every dtype
    if (parameter.kind != ParameterKind::Alpha) {
      if (parameter.kind == ParameterKind::Scalar)
        check_fits(op, as_scalar(value), compute_dtype(common_dtype));
      continue;
    }
    if (value.kind == Number::Kind::Bool && common_dtype != DType::Bool) {
      refuse("expected a number for " + name() + ", got a bool: bool goes with bool results only");
    }
    if (is_integral(common_dtype, true) && !value.is_integral()) {
      refuse("expected an integer for " + name() +
             " with integral operands, got a floating point number");
    }
    if (!is_complex(common_dtype) && value.kind == Number::Kind::Complex) {
      refuse("expected a real number for " + name() + " with real operands, got a complex number");
    }
    check_fits(op, as_scalar(value), common_dtype);
  }
  if (op.refuses_parameters == nullptr || arguments.has_symbolic_parameters()) return;
  const Refusal refusal = op.refuses_parameters(arguments.parameters, common_dtype);
  if (refusal.expected != nullptr)
    throw PlanError(refusal.kind, op, std::string("expected ") + refusal.expected);
}

void check_numbers(const OpInfo& op, const Arguments& arguments, DType common_dtype) {
  if (!op.numbers_must_fit && op.number_inputs == 0 && op.extra != Extra::Power) return;
  for (int i = 0; i < arguments.num_tensors; ++i) {
    const at::Tensor& tensor = *arguments.tensors[i];
    if ((op.number_inputs >> i & 1u) != 0 && tensor.dim() != 0) {
      throw PlanError(PlanError::Kind::Runtime, op,
                      std::string("expected ") + op.inputs[static_cast<size_t>(i)] +
                          " to be a number or a 0-d tensor, got a tensor with " +
                          std::to_string(tensor.dim()) + " dims");
    }
    std::optional<at::Scalar> number = arguments.number(i);
    const bool has_value = (op.number_inputs >> i & 1u) != 0 && tensor.is_cpu();
    if (!number && has_value) number = tensor.item();
    if (!number) continue;
    // Where it is an operand as others are and only moved, ATen makes it a tensor, and too large a
    // number an infinite half.
    const bool moved = op.moves_bits && (op.promoted_inputs >> i & 1u) != 0;
    const bool infinite = moved && (common_dtype == DType::Half || common_dtype == DType::BFloat16);
    if (op.numbers_must_fit && !infinite) check_fits(op, *number, common_dtype);
    if (op.extra != Extra::Power || i + 1 != arguments.num_tensors) continue;
    const bool integer = is_integral(common_dtype, true);
    if (integer || common_dtype == DType::Half || common_dtype == DType::BFloat16)
      check_fits(op, *number, common_dtype);
    if (integer && !number->isSymbolic() && number->toLong() < 0) {
      throw PlanError(PlanError::Kind::Runtime, op,
                      "expected no negative integer powers of integers, got " +
                          std::to_string(number->toLong()));
    }
  }
}

Number rounded_number(const Number& number, DType half_dtype) {
  const at::Scalar given = as_scalar(number);
  return Number::of(half_dtype == DType::Half ? double{given.to<c10::Half>()}
                                              : double{given.to<c10::BFloat16>()});
}

Number extra_number(const OpInfo& op, const Arguments& arguments, DType common_dtype) {
  if (op.extra == Extra::DType) return Number::of(static_cast<int64_t>(common_dtype));
  const std::optional<at::Scalar> base = arguments.number(0);
  const bool base_one = base && (base->isBoolean() ? base->toBool() : base->equal(1));
  if (base_one) return Number::of(int64_t{0});  // as any number to the power 0
  const std::optional<at::Scalar> exponent = arguments.number(arguments.num_tensors - 1);
  if (!exponent) return Number::none();
  // ATen's CPU takes powers of Half where it takes roots of all others: of -inf, inf and not nan.
  const bool is_root = !exponent->isComplex() && std::abs(exponent->toDouble()) == 0.5;
  if (is_root && common_dtype == DType::Half && arguments.tensors[0]->is_cpu())
    return Number::none();
  return as_number(*exponent);
}

MemoryFormat as_memory_format(const std::optional<at::MemoryFormat>& format) {
  if (!format) return MemoryFormat::Preserve;
  switch (*format) {
    case at::MemoryFormat::Contiguous:
      return MemoryFormat::Contiguous;
    case at::MemoryFormat::ChannelsLast:
      return MemoryFormat::ChannelsLast;
    case at::MemoryFormat::ChannelsLast3d:
      return MemoryFormat::ChannelsLast3d;
    default:
      return MemoryFormat::Preserve;
  }
}

}  // namespace iterlab
