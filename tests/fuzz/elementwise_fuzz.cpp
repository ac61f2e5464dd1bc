// Random elementwise calls of the engine, on every path that is legal for them, compared with the
// generic one. Each operand lies in a heap block of exactly its extent, so that AddressSanitizer
// sees any access beside it. Usage: elementwise_fuzz SECONDS [SEED]
#include "engine/cpu/elementwise.h"
#include "engine/kernel_table.h"
#include "engine/plan.h"
#include "iterlab/error.h"
#include "iterlab/ops.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace iterlab {
namespace {

std::mt19937_64 chance;
int64_t below(int64_t count) {
  return static_cast<int64_t>(chance() % static_cast<uint64_t>(count));
}
template <class T>
T one_of(std::initializer_list<T> list) {
  return list.begin()[below(static_cast<int64_t>(list.size()))];
}

// A tensor whose memory is a block of its own. Strides are in elements and not negative.
struct Tensor {
  DType dtype = DType::Undefined;
  std::vector<int64_t> sizes, strides;
  std::unique_ptr<char[]> memory;
  int64_t bytes = 0;

  void allocate() {
    int64_t last = 0;
    for (size_t d = 0; d < sizes.size(); ++d) last += (sizes[d] - 1) * strides[d];
    bytes = std::ranges::count(sizes, 0) > 0 ? 0 : (last + 1) * element_size(dtype);
    memory = std::make_unique<char[]>(static_cast<size_t>(bytes));
  }
  void fill() {
    for (int64_t i = 0; i < bytes; ++i)
      memory[static_cast<size_t>(i)] = static_cast<char>(chance());
    if (dtype == DType::Bool) {
      for (int64_t i = 0; i < bytes; ++i) memory[static_cast<size_t>(i)] &= 1;
    }
  }
};

// Dense in a random order of dims, then perhaps every other element, a longer pitch, or repeated.
Tensor random_tensor(const std::vector<int64_t>& shape, DType dtype, bool may_repeat) {
  Tensor tensor{dtype, shape, std::vector<int64_t>(shape.size()), nullptr, 0};
  std::vector<size_t> order(shape.size());
  for (size_t d = 0; d < order.size(); ++d) order[d] = d;
  if (below(2) == 0) {
    std::ranges::shuffle(order, chance);
  } else {
    std::ranges::reverse(order);
  }
  int64_t pitch = one_of<int64_t>({1, 1, 1, 2, 3, 5});
  for (const size_t d : order) {
    tensor.strides[d] = pitch;
    pitch = pitch * std::max<int64_t>(shape[d], 1) + one_of<int64_t>({0, 0, 0, 1, 7});
    if (may_repeat && below(8) == 0) tensor.strides[d] = 0;
  }
  tensor.allocate();
  return tensor;
}

bool is_nan_of(DType dtype, const char* element) {
  const auto bits = [&](auto value) {
    std::memcpy(&value, element, sizeof(value));
    return value;
  };
  switch (dtype) {
    case DType::Float:
      return std::isnan(bits(0.0f));
    case DType::Double:
      return std::isnan(bits(0.0));
    case DType::Half:
      return (bits(uint16_t{}) & 0x7FFF) > 0x7C00;
    case DType::BFloat16:
      return (bits(uint16_t{}) & 0x7FFF) > 0x7F80;
    default:
      return false;
  }
}

// Which nan a formula gives is the compiler's choice.
bool same(const Tensor& got, const std::vector<char>& want) {
  const int64_t size = element_size(got.dtype);
  for (int64_t i = 0; i < got.bytes; i += size) {
    const char *a = got.memory.get() + i, *b = want.data() + i;
    const bool nans = is_nan_of(got.dtype, a) && is_nan_of(got.dtype, b);
    if (!nans && std::memcmp(a, b, static_cast<size_t>(size)) != 0) return false;
  }
  return true;
}

struct Call {
  const OpInfo* op;
  int index;
  std::vector<Tensor> tensors;  // the output first
  std::vector<Number> numbers;
};

Call random_call() {
  constexpr auto kNames = std::to_array<const char*>(
      {"add", "mul", "sub", "lt",   "eq",      "relu",  "abs", "sqrt",  "exp",  "tanh",
       "erf", "log", "sin", "gelu", "maximum", "where", "to",  "clone", "lerp", "bitwise_and"});
  const char* const name = kNames[static_cast<size_t>(below(kNames.size()))];
  Call call{nullptr, 0, {}, {}};
  for (const OpInfo& op : ops::ElementwiseOps::infos) {
    if (std::string(op.name) == name) {
      call.op = &op;
      break;
    }
    ++call.index;
  }
  std::vector<int64_t> shape(static_cast<size_t>(below(5)));
  for (int64_t& size : shape)
    size = one_of<int64_t>({0, 1, 2, 3, 7, 16, 33, 65, 130, 9 + below(60)});
  while (numel(Dims(std::span<const int64_t>(shape))) > 60000) shape.pop_back();
  const auto dtype = [] {
    return one_of<DType>({DType::Float, DType::Float, DType::BFloat16, DType::Half, DType::Double,
                          DType::Char, DType::Byte, DType::Int, DType::Long, DType::Bool});
  };
  call.tensors.push_back(random_tensor(shape, dtype(), false));
  const DType first = dtype();
  for (int i = 0; i < call.op->num_inputs; ++i) {
    const bool mask = (call.op->bool_inputs >> i & 1u) != 0;
    call.tensors.push_back(random_tensor(shape,
                                         mask            ? DType::Bool
                                         : below(2) == 0 ? first
                                                         : dtype(),
                                         true));
    call.tensors.back().fill();
  }
  for (int i = 0; i < call.op->num_parameters; ++i) {
    if (reaches_functor(call.op->parameters[static_cast<size_t>(i)].kind))
      call.numbers.push_back(Number::of(int64_t{1}));
  }
  call.numbers.push_back(Number::of(static_cast<int64_t>(DType::Float)));  // an Extra
  return call;
}

// False where the engine refuses the call, as it should many.
bool check(Call& call) {
  Operands operands;
  operands.num_outputs = 1;
  operands.num_inputs = call.op->num_inputs;
  for (size_t i = 0; i < call.tensors.size(); ++i) {
    const Tensor& tensor = call.tensors[i];
    Operand& operand = operands.list[i];
    operand.sizes = tensor.sizes;
    operand.strides = tensor.strides;
    operand.dtype = tensor.dtype;
    operand.output_kind = i == 0 ? OutputKind::Given : OutputKind::Allocated;
    operand.data = tensor.memory.get();
  }
  if (call.op->promotion == Promotion::ToArgument) operands.dtype_argument = call.tensors[0].dtype;
  const cpu::KernelTable& table = kernel_table();
  std::vector<char> wanted;
  Tensor& output = call.tensors[0];
  for (const std::optional<Path> path : std::initializer_list<std::optional<Path>>{
           Path::generic, std::nullopt, Path::vectorized, Path::strided, Path::tiled}) {
    Plan plan;
    set_forced_path(path);
    try {
      make_plan(operands, *call.op, plan);
    } catch (const PlanError&) {
      set_forced_path(std::nullopt);
      if (path == Path::generic) return false;
      continue;
    }
    set_forced_path(std::nullopt);
    std::memset(output.memory.get(), 0, static_cast<size_t>(output.bytes));
    char* data[kMaxOperands] = {};
    for (size_t i = 0; i < call.tensors.size(); ++i) data[i] = call.tensors[i].memory.get();
    cpu::run_elementwise(plan, *table.elementwise[call.index], table.stage, data,
                         call.numbers.data(), Parallel{});
    if (path == Path::generic) {
      wanted.assign(output.memory.get(), output.memory.get() + output.bytes);
    } else if (!same(output, wanted)) {
      std::printf("%s: path %s differs from generic\n", call.op->name,
                  kPathNames[static_cast<size_t>(plan.path)]);
      for (const Tensor& tensor : call.tensors) {
        std::printf("  %s [", dtype_name(tensor.dtype));
        for (size_t d = 0; d < tensor.sizes.size(); ++d)
          std::printf(" %ld:%ld", static_cast<long>(tensor.sizes[d]),
                      static_cast<long>(tensor.strides[d]));
        std::printf(" ]\n");
      }
      std::exit(1);
    }
  }
  return true;
}

}  // namespace
}  // namespace iterlab

int main(int count, char** arguments) {
  const double seconds = count > 1 ? std::atof(arguments[1]) : 10;
  iterlab::chance.seed(count > 2 ? std::strtoull(arguments[2], nullptr, 10) : 1);
  const auto start = std::chrono::steady_clock::now();
  int64_t calls = 0, ran = 0;
  while (std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() <
         seconds) {
    iterlab::Call call = iterlab::random_call();
    ran += iterlab::check(call);
    ++calls;
  }
  std::printf("%ld calls, %ld of them legal and the same on every path\n", static_cast<long>(calls),
              static_cast<long>(ran));
  return ran > 0 ? 0 : 1;
}
