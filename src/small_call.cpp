// Small calls, without a plan. Note [Small calls]
#include "src/small_call.h"

#include "engine/cpu/elementwise.h"
#include "engine/cpu/share.h"
#include "engine/kernel_table.h"
#include "engine/op_table.h"
#include "engine/order.h"
#include "engine/plan.h"
#include "src/describe.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

namespace iterlab {
namespace {

constexpr int64_t kMostGathered = 128;  // elements
constexpr int kMostDims = 4;            // of operands that are gathered
constexpr int kMostInputs = 3;
constexpr int64_t kWidestElement = 16;  // bytes

// What a plan says of contiguous operands of one dtype, whatever their shape.
struct SmallKernel {
  cpu::LaneKernel kernel;
  DType common_dtype, result_dtype;
  double work;  // of one element, as share() counts it
};

// Null where operands of one dtype are not simply handed to the kernel.
std::unique_ptr<SmallKernel> plan_kernel(const OpInfo& op, DType dtype) {
  if (op.num_inputs > kMostInputs || op.unread_inputs != 0) return nullptr;
  constexpr int64_t kSize = 2, kStride = 1;
  Operands operands;
  operands.num_outputs = 1;
  operands.num_inputs = op.num_inputs;
  for (int i = 0; i < op.num_inputs; ++i) {
    operands.input(i).sizes = {&kSize, 1};
    operands.input(i).strides = {&kStride, 1};
    operands.input(i).dtype = dtype;
  }
  if (!are_plain(operands, op)) return nullptr;
  Plan plan;
  make_plan(operands, op, plan);
  for (int i = 0; i < plan.num_operands; ++i) {
    if (plan.operands[static_cast<size_t>(i)].staged) return nullptr;
  }
  const double work = static_cast<double>(plan.bytes) * op.cost / static_cast<double>(plan.numel);
  return std::make_unique<SmallKernel>(
      SmallKernel{cpu::LaneKernel(plan, *kernel_table().elementwise[kernel_index(op)]),
                  plan.common_dtype, plan.result_dtype, work});
}

// plan_kernel's, made at the first call and kept.
const SmallKernel* small_kernel(const OpInfo& op, DType dtype) {
  struct Entry {
    std::atomic<bool> made = false;
    std::atomic<const SmallKernel*> kernel = nullptr;
  };
  using Entries = std::array<Entry, kNumStorageTypes>;
  static auto* const entries = new std::vector<Entries>(op_table().size());
  const int type = type_index(dtype);
  if (type < 0) return nullptr;
  Entry& entry = (*entries)[static_cast<size_t>(kernel_index(op))][static_cast<size_t>(type)];
  if (!entry.made.load(std::memory_order_acquire)) {
    const SmallKernel* none = nullptr;
    std::unique_ptr<SmallKernel> made = plan_kernel(op, dtype);
    if (made != nullptr && entry.kernel.compare_exchange_strong(none, made.get())) made.release();
    entry.made.store(true, std::memory_order_release);
  }
  return entry.kernel.load(std::memory_order_relaxed);
}

const char* data_of(const at::Tensor& tensor) {
  return static_cast<const char*>(tensor.const_data_ptr());
}

// A tensor's own view of itself; Operand is the planner's.
struct TensorView {
  explicit TensorView(const at::Tensor& given) : tensor(given) {}

  at::IntArrayRef sizes() const { return tensor.sizes(); }
  at::IntArrayRef strides() const { return tensor.strides(); }
  DType dtype() const { return tensor.scalar_type(); }
  bool is_contiguous() const { return tensor.is_contiguous(); }
  const char* data() const { return data_of(tensor); }

  const at::Tensor& tensor;
};

struct OperandView {
  explicit OperandView(const Operand& given) : operand(given) {}

  at::IntArrayRef sizes() const { return {operand.sizes.data(), operand.sizes.size()}; }
  at::IntArrayRef strides() const { return {operand.strides.data(), operand.strides.size()}; }
  DType dtype() const { return operand.dtype; }
  bool is_contiguous() const { return iterlab::is_contiguous(operand.sizes, operand.strides); }
  const char* data() const { return static_cast<const char*>(operand.data); }

  const Operand& operand;
};

// The inputs of a call.
struct TensorInputs {
  const Arguments& arguments;
  int size() const { return arguments.num_tensors; }
  TensorView operator[](int i) const { return TensorView(*arguments.tensors[i]); }
};
struct OperandInputs {
  const Operands& operands;
  int size() const { return operands.num_inputs; }
  OperandView operator[](int i) const { return OperandView(operands.input(i)); }
};

// All have dims, as many as the planner takes, and the dtype of the first.
template <class Inputs>
bool are_of_one_dtype(const Inputs& inputs) {
  const DType dtype = inputs[0].dtype();
  for (int i = 0; i < inputs.size(); ++i) {
    const size_t ndim = inputs[i].sizes().size();
    if (ndim == 0 || ndim > kMaxDims || inputs[i].dtype() != dtype) return false;
  }
  return true;
}

template <class Inputs>
bool are_contiguous_of_one_shape(const Inputs& inputs) {
  const at::IntArrayRef shape = inputs[0].sizes();
  for (int i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].is_contiguous() || (i > 0 && inputs[i].sizes() != shape)) return false;
  }
  return true;
}

// Whether a given output can be written as a new one would be: each input is the same memory or
// other memory.
template <class View, class Inputs>
bool can_write(const View& output, const SmallKernel& kernel, int64_t numel, const Inputs& inputs) {
  if (output.dtype() != kernel.result_dtype || output.sizes() != inputs[0].sizes() ||
      !output.is_contiguous())
    return false;
  const char* const begin = output.data();
  const char* const end = begin + numel * element_size(output.dtype());
  for (int i = 0; i < inputs.size(); ++i) {
    const auto input = inputs[i];
    const char* const data = input.data();
    if (data == nullptr) continue;  // not known: of a plan made without tensors
    const bool same = data == begin && input.dtype() == output.dtype();
    if (!same && data < end && begin < data + numel * element_size(input.dtype())) return false;
  }
  return true;
}

// A broadcast shape of few elements and dims, with the strides of each input along it.
struct SmallShape {
  int ndim = 0;
  int64_t numel = 1;
  bool in_order = true;  // so that a new result is contiguous
  int64_t sizes[kMostDims];
  int64_t strides[kMostInputs][kMostDims];
};

// False where there are no elements, too many, or no such shape.
template <class Inputs>
bool fill_small_shape(const Inputs& inputs, SmallShape& shape) {
  for (int i = 0; i < inputs.size(); ++i)
    shape.ndim = std::max(shape.ndim, static_cast<int>(inputs[i].sizes().size()));
  if (shape.ndim > kMostDims) return false;
  std::fill_n(shape.sizes, shape.ndim, 1);
  for (int i = 0; i < inputs.size(); ++i) {
    const at::IntArrayRef sizes = inputs[i].sizes(), strides = inputs[i].strides();
    const int missing = shape.ndim - static_cast<int>(sizes.size());
    int64_t outer = std::numeric_limits<int64_t>::max();
    for (int d = 0; d < shape.ndim; ++d) {
      const auto own = static_cast<size_t>(d - missing);
      const bool broadcast = d < missing || sizes[own] == 1;
      const int64_t stride = shape.strides[i][d] = broadcast ? 0 : strides[own];
      if (broadcast) continue;
      if (shape.sizes[d] != 1 && shape.sizes[d] != sizes[own]) return false;
      shape.sizes[d] = sizes[own];
      if (stride == 0) continue;
      shape.in_order = shape.in_order && stride < outer;
      outer = stride;
    }
  }
  for (int d = 0; d < shape.ndim; ++d) {
    shape.numel *= shape.sizes[d];
    shape.in_order = shape.in_order && shape.sizes[d] != 1;
  }
  return 0 < shape.numel && shape.numel <= kMostGathered;
}

// A new result of dims that are not in order, in the layout that the planner chooses; `shape` is
// put in its order.
at::Tensor order(const OpInfo& op, const Arguments& arguments, DType result_dtype,
                 SmallShape& shape) {
  Operands operands;
  describe_call(op, arguments, {}, operands);
  BasicShapePlan<int64_t> layout;
  layout.shape = Dims({shape.sizes, static_cast<size_t>(shape.ndim)});
  plan_layout(operands, op, layout);
  if (layout.same_layout) {  // one run, in each input
    shape.ndim = 1;
    shape.sizes[0] = shape.numel;
    for (int i = 0; i < arguments.num_tensors; ++i) shape.strides[i][0] = 1;
  } else {
    const SmallShape given = shape;
    for (int d = 0; d < shape.ndim; ++d) {
      const int64_t from = layout.permutation[shape.ndim - 1 - d];
      shape.sizes[d] = given.sizes[from];
      for (int i = 0; i < arguments.num_tensors; ++i) shape.strides[i][d] = given.strides[i][from];
    }
  }
  return empty_cpu(layout.shape, layout.output_strides, result_dtype);
}

bool is_one_run(const SmallShape& shape, int input) {
  int64_t expected = 1;
  for (int d = shape.ndim - 1; d >= 0; --d) {
    if (shape.sizes[d] != 1 && shape.strides[input][d] != expected) return false;
    expected *= shape.sizes[d];
  }
  return true;
}

// Brings an input's elements, `element` bytes each, to `packed`: planes of the two innermost dims.
void gather(const SmallShape& shape, int input, int64_t element, const char* data, char* packed) {
  int64_t sizes[kMostDims], steps[kMostDims];  // outermost first, in bytes
  const int missing = kMostDims - shape.ndim;
  for (int d = 0; d < kMostDims; ++d) {
    sizes[d] = d < missing ? 1 : shape.sizes[d - missing];
    steps[d] = d < missing ? 0 : shape.strides[input][d - missing] * element;
  }
  const cpu::GatherFn gather_plane = kernel_table().stage.gather_strided[cpu::width_index(element)];
  for (int64_t a = 0; a < sizes[0]; ++a) {
    for (int64_t b = 0; b < sizes[1]; ++b) {
      gather_plane(data + a * steps[0] + b * steps[1], steps[3], steps[2], packed, sizes[3],
                   sizes[2]);
      packed += sizes[2] * sizes[3] * element;
    }
  }
}

// How a small call is computed, if it is one; null kernel where it is not.
struct SmallCall {
  const SmallKernel* kernel = nullptr;
  int64_t numel = 0;
  bool gathers = false;
  SmallShape shape;  // where operands are gathered
};

// `output`: a view of the given one, or null.
template <class Inputs, class View>
SmallCall small_call(const OpInfo& op, const Inputs& inputs, bool rounds, const View* output) {
  SmallCall call;
  if (rounds || !are_of_one_dtype(inputs) || forced_path()) return call;
  const SmallKernel* const kernel = small_kernel(op, inputs[0].dtype());
  if (kernel == nullptr) return call;
  if (are_contiguous_of_one_shape(inputs)) {
    call.numel = c10::multiply_integers(inputs[0].sizes());
    if (output != nullptr && !can_write(*output, *kernel, call.numel, inputs)) return call;
  } else {
    if (output != nullptr) return call;
    call.gathers = true;
    if (fill_small_shape(inputs, call.shape)) call.numel = call.shape.numel;
  }
  const double work = static_cast<double>(call.numel) * kernel->work;
  if (call.numel > 0 && work < 2 * cpu::kGrainBytes) call.kernel = kernel;
  return call;
}

at::Tensor new_result(const OpInfo& op, const Arguments& arguments, SmallCall& call) {
  const DType dtype = call.kernel->result_dtype;
  if (!call.gathers) return empty_cpu(arguments.tensors[0]->sizes(), dtype);
  SmallShape& shape = call.shape;
  if (!shape.in_order) return order(op, arguments, dtype, shape);
  return empty_cpu({shape.sizes, static_cast<size_t>(shape.ndim)}, dtype);
}

// `call.shape` is in the result's order.
void run(const OpInfo& op, const Arguments& arguments, const SmallCall& call,
         const at::Tensor& result) {
  alignas(64) char packed[kMostInputs][kMostGathered * kWidestElement];
  char* data[kMostInputs + 1];
  data[0] = static_cast<char*>(result.mutable_data_ptr());
  for (int i = 0; i < arguments.num_tensors; ++i) {
    const at::Tensor& input = *arguments.tensors[i];
    const bool in_place = !call.gathers || is_one_run(call.shape, i);
    data[i + 1] = in_place ? const_cast<char*>(data_of(input)) : packed[i];
    if (!in_place)
      gather(call.shape, i, element_size(input.scalar_type()), data_of(input), packed[i]);
  }
  Number buffer[kMaxParameters + 1];
  const SmallKernel& kernel = *call.kernel;
  kernel.kernel(call.numel, data, functor_numbers(op, arguments, kernel.common_dtype, buffer));
}

}  // namespace

bool is_small_call(const OpInfo& op, const Operands& operands) {
  const OperandView output(operands.output(0));
  const bool allocates = operands.output(0).output_kind == OutputKind::Allocated;
  return small_call(op, OperandInputs{operands}, operands.rounds, allocates ? nullptr : &output)
             .kernel != nullptr;
}

bool call_small(const OpInfo& op, const Arguments& arguments, Output output,
                at::Tensor& allocated) {
  for (int i = 0; i < arguments.num_tensors; ++i) {
    if (!arguments.tensors[i]->is_cpu()) return false;
  }
  std::optional<TensorView> given;
  if (output.kind != OutputKind::Allocated) {
    if (!output.tensor->is_cpu()) return false;
    given.emplace(*output.tensor);
  }
  SmallCall call =
      small_call(op, TensorInputs{arguments}, rounds(op, arguments), given ? &*given : nullptr);
  if (call.kernel == nullptr) return false;
  check_parameters(op, arguments, call.kernel->common_dtype);
  check_numbers(op, arguments, call.kernel->common_dtype);
  if (!given) allocated = new_result(op, arguments, call);
  run(op, arguments, call, given ? *output.tensor : allocated);
  return true;
}

}  // namespace iterlab
