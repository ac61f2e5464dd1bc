// The host side of elementwise kernels: from a plan to the arguments of one launch.
#include "engine/cuda/elementwise.h"

#include "engine/cuda/arguments.h"
#include "engine/cuda/launch.h"
#include "engine/cuda/pack.h"
#include "iterlab/op.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <limits>

namespace iterlab::cuda {
namespace {

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// The dims of a launch: the plan's, or a part of them where one launch cannot hold all.
struct View {
  int ndim = 0;
  int64_t sizes[kMaxDims];
  char* data[kMaxOperands];
};

class Run {
 public:
  Run(const Plan& plan, const OpKernels& kernels, const OperandSource* operands,
      const Number* parameters, const Context& context)
      : plan_(plan), sources_(operands), parameters_(parameters), context_(context) {
    choose_types();
    kernels_ = &kernels.by_type[type_];
    slots_ = count_slots(*plan.op);
  }

  void all() {
    View view;
    view.ndim = plan_.loop_shape.size();
    std::copy(plan_.loop_shape.begin(), plan_.loop_shape.end(), view.sizes);
    for (int i = 0; i < plan_.num_operands; ++i) view.data[i] = sources_[i].data;
    switch (plan_.path) {
      case Path::vectorized:
      case Path::strided:
        return rows(view);
      case Path::tiled:
        return tiled(view);
      case Path::generic:
        return generic(view);
    }
  }

 private:
  const OperandPlan& operand(int i) const { return plan_.operands[static_cast<size_t>(i)]; }

  // Operators that only move bits run on unsigned numbers where all operands have one dtype.
  void choose_types() {
    const OpInfo& op = *plan_.op;
    bool moves = op.moves_bits;
    for (int i = 0; i < plan_.num_operands; ++i) {
      if (!is_bool_input(i) && !is_unread(i))
        moves = moves && operand(i).dtype == plan_.compute_dtype && sources_[i].number == nullptr;
    }
    type_ =
        compute_index(moves ? bits_of(plan_.compute_dtype) : compute_dtype(plan_.compute_dtype));
    for (int i = 0; i < plan_.num_operands; ++i) {
      types_[i] =
          moves && !is_bool_input(i) && !is_unread(i) ? type_ : type_index(operand(i).dtype);
    }
    size_ = compute_size(type_);
  }

  bool is_bool_input(int i) const {
    return i >= plan_.num_outputs && (plan_.op->bool_inputs >> (i - plan_.num_outputs) & 1u) != 0;
  }

  bool is_unread(int i) const {
    return i >= plan_.num_outputs && (plan_.op->unread_inputs >> (i - plan_.num_outputs) & 1u) != 0;
  }

  static DType bits_of(DType dtype) {
    switch (element_size(dtype)) {
      case 1:
        return DType::Byte;
      case 2:
        return DType::UInt16;
      case 4:
        return DType::UInt32;
      case 8:
        return DType::UInt64;
      default:
        return DType::ComplexDouble;
    }
  }

  static int compute_size(int type) {
    constexpr std::array<int, kNumComputeTypes> sizes{
#define ITERLAB_SIZE(type, name, text) static_cast<int>(sizeof(type)),
        ITERLAB_FORALL_COMPUTE_TYPES(ITERLAB_SIZE)
#undef ITERLAB_SIZE
    };
    return sizes[static_cast<size_t>(type)];
  }

  // A number in the compute type of the launch.
  Slot slot_of(const Number& number) const {
    Slot slot{};
    switch (type_) {
#define ITERLAB_CASE(T, name, text)             \
  case k##name##Index: {                        \
    const T value = number.to<T>();             \
    std::memcpy(slot.bytes, &value, sizeof(T)); \
    break;                                      \
  }
      ITERLAB_FORALL_COMPUTE_TYPES(ITERLAB_CASE)
#undef ITERLAB_CASE
      default:
        break;
    }
    return slot;
  }

  static int count_slots(const OpInfo& op) {
    int slots = op.extra == Extra::None ? 0 : 1;
    for (int i = 0; i < op.num_parameters; ++i)
      slots += reaches_functor(op.parameters[static_cast<size_t>(i)].kind) ? 1 : 0;
    return std::max(1, slots);
  }

  void fill_parameters(Parameters<kMaxParameters + 1>& to) const {
    int n = 0;
    for (int i = 0; i < plan_.op->num_parameters; ++i) {
      const ParameterKind kind = plan_.op->parameters[static_cast<size_t>(i)].kind;
      if (!reaches_functor(kind)) continue;
      const Number& number = parameters_[n];
      if (kind == ParameterKind::Int || kind == ParameterKind::Bool ||
          kind == ParameterKind::Choice) {
        std::memcpy(to.slots[n].bytes, &number.integer, sizeof(number.integer));
      } else {
        to.slots[n] = slot_of(number);  // 0 where it is None, which functors may read
      }
      if (!number.is_none()) to.given |= 1u << n;
      ++n;
    }
    if (plan_.op->extra == Extra::None) return;
    const Number& number = parameters_[n];
    const int64_t extra =
        plan_.op->extra == Extra::Power ? static_cast<int64_t>(power_of(number)) : number.integer;
    std::memcpy(to.slots[n].bytes, &extra, sizeof(extra));
  }

  void fill_operand(int i, char* data, Access access, KernelOperand& to) const {
    to.data = data;
    to.type = static_cast<int16_t>(types_[i]);
    to.size = static_cast<int16_t>(element_size(operand(i).dtype));
    to.rounded_to = static_cast<int16_t>(operand(i).rounded ? rounding_type(i) : -1);
    to.access = access;
    if (!reads_memory(i)) {
      to.access = Access::value;
      to.value = sources_[i].number != nullptr ? slot_of(*sources_[i].number) : Slot{};
    }
  }

  // Note [Rounded operands]
  int rounding_type(int i) const {
    return type_index(i < plan_.num_outputs ? plan_.result_dtype : plan_.common_dtype);
  }

  // The kernels that are compiled for the operands' stored types; null where there are none.
  const StoredKernels* stored_kernels() const {
    const auto fits = [&](const StoredKernels& kernels) {
      if (kernels.vectorized == nullptr || types_[0] != kernels.output || operand(0).rounded)
        return false;
      for (int i = plan_.num_outputs; i < plan_.num_operands; ++i) {
        const int type = is_bool_input(i) ? type_index(DType::Bool) : kernels.input;
        if (reads_memory(i) && (types_[i] != type || operand(i).rounded)) return false;
      }
      return true;
    };
    for (const StoredKernels& kernels : kernels_->stored) {
      if (fits(kernels)) return &kernels;
    }
    return nullptr;
  }

  bool reads_memory(int i) const { return sources_[i].number == nullptr && !is_unread(i); }

  // Threads of a block: fewer where blocks of 256 would leave multiprocessors idle.
  int block_threads(int64_t threads) const {
    int block = kBlockThreads;
    while (block > 32 && threads < int64_t{2} * block * context_.multiprocessors) block /= 2;
    return block;
  }

  // `dims`: those that the kernel's arguments have.
  void launch(const char* name, const void* kernel, Nested& args, int dims, int64_t threads,
              int64_t slabs, int block, int shared) const {
    const int64_t blocks = ceil_div(threads, block);
    pack(args, plan_.num_operands, slots_, dims);
    launch_kernel(*plan_.op, name, kernel,
                  {static_cast<uint32_t>(blocks), static_cast<uint32_t>(slabs)}, block, shared,
                  &args, context_);
  }

  // Whether operand i is a run, or one element, along the innermost dim.
  bool unit_or_one(int i, const View& view) const {
    if (view.ndim == 0) return true;
    const int64_t stride = operand(i).strides[0];
    return !reads_memory(i) || stride == element_size(operand(i).dtype) ||
           (i >= plan_.num_outputs && stride == 0) || view.sizes[0] == 1;
  }

  // What every launch with nested dims has.
  void fill_nested(const View& view, Nested& args) const {
    fill_parameters(args.parameters);
    args.ndim = static_cast<int16_t>(view.ndim);
    for (int d = 0; d < 2; ++d) args.sizes[d] = d < view.ndim ? view.sizes[d] : 1;
    for (int i = 0; i < plan_.num_operands; ++i) {
      const Dims& strides = operand(i).strides;
      KernelOperand& to = args.operands[i];
      const bool unit = args.sizes[0] == 1 || strides[0] == element_size(operand(i).dtype);
      const bool one = !unit && strides[0] == 0;
      fill_operand(i, view.data[i],
                   one    ? Access::one
                   : unit ? Access::vectors
                          : Access::strided,
                   to);
      for (int d = 0; d < std::max(2, view.ndim); ++d)
        args.strides[i][d] = d < view.ndim && to.access != Access::value ? strides[d] : 0;
      if (to.access == Access::vectors) args.strides[i][0] = element_size(operand(i).dtype);
    }
  }

  // Whether the operands that are runs start at boundaries of 16 bytes.
  bool starts_at_boundaries(const Nested& args) const {
    for (int i = 0; i < plan_.num_operands; ++i) {
      const KernelOperand& operand = args.operands[i];
      if (operand.access == Access::vectors && reinterpret_cast<uintptr_t>(operand.data) % 16 != 0)
        return false;
    }
    return true;
  }

  // Rows that the generic kernel takes: shorter ones waste lanes, and some threads of a warp take
  // their row's ends by the element while the others wait.
  static constexpr int64_t kShortRow = 512;

  void rows(const View& view) const {
    const StoredKernels* const stored = stored_kernels();
    const void* const kernel = stored != nullptr ? stored->vectorized : kernels_->strided;
    const int width = stored != nullptr ? stored_width(stored->size) : group_width(size_);
    Nested args;
    fill_nested(view, args);
    bool fits = kernel != nullptr && view.ndim <= kMaxRowDims &&
                (view.ndim <= 1 || view.sizes[0] >= kShortRow || view.sizes[0] % width == 0);
    for (int i = 0; i < plan_.num_operands; ++i) fits = fits && unit_or_one(i, view);
    if (!fits) return spans(view);
    // Bytes of the widest store of one group of the output.
    const int64_t element = element_size(operand(0).dtype);
    const int64_t bytes = std::min<int64_t>(16, width * element);
    bool aligned = reinterpret_cast<uintptr_t>(view.data[0]) % static_cast<uintptr_t>(bytes) == 0;
    int64_t rows = 1;
    for (int d = 1; d < view.ndim; ++d) {
      aligned = aligned && operand(0).strides[d] % bytes == 0;
      args.dividers[d] = Divider(std::min<int64_t>(view.sizes[d], INT32_MAX));
      rows *= view.sizes[d];
    }
    args.align = aligned ? 1 : static_cast<int16_t>(bytes / element);
    const int64_t per_row = ceil_div(args.sizes[0] + args.align - 1, width);
    if (view.ndim > 1 && (per_row > INT32_MAX || rows > INT32_MAX / per_row)) return generic(view);
    args.units = per_row * rows;
    args.row_divider = Divider(std::min<int64_t>(per_row, INT32_MAX));
    args.plain = stored != nullptr && view.ndim <= 1 && aligned && starts_at_boundaries(args);
    const int64_t threads = stored != nullptr ? ceil_div(args.units, stored->groups) : args.units;
    launch(stored != nullptr ? "vectorized" : "strided", kernel, args, kMaxRowDims, threads, 1,
           block_threads(threads), 0);
  }

  // Note [Spans]
  void spans(const View& view) const {
    const StoredKernels* const stored = stored_kernels();
    if (stored == nullptr || stored->spans == nullptr || view.ndim == 0 || view.ndim > kMaxRowDims)
      return generic(view);
    Nested args;
    fill_nested(view, args);
    int64_t most = span_elements(stored->size);
    // A long row is walked alone: the next one may be far away.
    const int inner = view.ndim == 1 || view.sizes[0] >= most ? 1 : 2;
    const int64_t numel = inner == 1 ? view.sizes[0] : view.sizes[0] * view.sizes[1];
    int64_t slabs = 1;
    for (int d = inner; d < view.ndim; ++d) {
      slabs *= view.sizes[d];
      args.dividers[d] = Divider(std::min<int64_t>(view.sizes[d], INT32_MAX));
    }
    while (most > kLeastSpan && ceil_div(numel, most) * slabs < 4 * context_.multiprocessors)
      most /= 2;
    int64_t shared = make_room(args, inner, most);
    for (; shared > kMaxSharedBytes && most > kBlockThreads; most /= 2)
      shared = make_room(args, inner, most / 2);
    const int64_t blocks = ceil_div(numel, most);
    if (shared == 0 || shared > kMaxSharedBytes || numel > kSlabElements ||
        slabs > INT32_MAX / blocks) {
      return generic(view);
    }
    args.inner_dims = static_cast<int16_t>(inner);
    args.slab_numel = numel;
    args.units = most;
    args.row_divider = Divider(view.sizes[0]);
    args.slab_divider = Divider(blocks);
    launch("span", stored->spans, args, kMaxRowDims, blocks * slabs * kBlockThreads, 1,
           kBlockThreads, static_cast<int>(shared));
  }

  // Bytes of shared memory for the spans of a block of `elements`; 0 where they are too large to
  // pay.
  int64_t make_room(Nested& args, int inner, int64_t elements) const {
    // A block that ends in another row than it starts in brings whole rows of both.
    const int64_t row = inner == 1 ? std::min(args.sizes[0], elements) : args.sizes[0];
    const int64_t further = inner == 1 ? 0 : ceil_div(elements - 1, row);  // rows after the first
    int64_t shared = 0;
    for (int i = 0; i < plan_.num_operands; ++i) {
      args.rooms[i] = 0;
      const int64_t step = args.strides[i][0], pitch = inner == 1 ? 0 : args.strides[i][1];
      if (std::max(std::abs(step), std::abs(pitch)) > INT32_MAX / 2 / elements) return 0;
      if (i < plan_.num_outputs || args.operands[i].access == Access::value) continue;
      const int64_t span = further * pitch + (row - 1) * step + args.operands[i].size;
      if (step < 0 || pitch < 0 || span > kLoosestSpan * elements * args.operands[i].size) return 0;
      args.rooms[i] = static_cast<int32_t>(aligned_to(static_cast<size_t>(span), 16) + 16);
      shared += args.rooms[i];
    }
    return shared;
  }

  // A span may be so many times what is read of it: beyond, each element has a sector of its own.
  static constexpr int64_t kLoosestSpan = 5;

  // Tiles with a side shorter than this would be mostly empty.
  static constexpr int64_t kShortSide = 16;
  static constexpr int64_t kNarrow = 512;
  // What a block may have without asking for more.
  static constexpr int kMaxSharedBytes = 48 << 10;

  // Whether operand i's vectors along loop dim `along` start at 16-byte boundaries.
  static bool has_vectors(const Nested& args, int i, int along) {
    bool aligned = reinterpret_cast<uintptr_t>(args.operands[i].data) % 16 == 0;
    for (int d = 0; d < args.ndim; ++d)
      aligned = aligned && (d == along || args.strides[i][d] % 16 == 0);
    return aligned;
  }

  void tiled(const View& view) const {
    if (view.ndim < 2 || view.ndim > kMaxRowDims || view.sizes[0] < kShortSide ||
        view.sizes[1] < kShortSide || !unit_or_one(0, view)) {
      return spans(view);
    }
    // Operands of other types are converted into tiles of the compute type.
    const StoredKernels* stored = stored_kernels();
    const bool uniform = stored != nullptr && stored->tiled != nullptr;
    if (!uniform) stored = &kernels_->stored[0];
    if (stored->tiled == nullptr) return generic(view);
    Nested args;
    fill_nested(view, args);
    args.vectors = uniform && has_vectors(args, 0, 0);
    int shared = 0;
    for (int i = plan_.num_outputs; i < plan_.num_operands; ++i) {
      KernelOperand& to = args.operands[i];
      if (to.access == Access::strided) {
        if (operand(i).strides[1] != element_size(operand(i).dtype)) return generic(view);
        to.access = Access::shared;
        args.vectors = args.vectors && !is_bool_input(i) && has_vectors(args, i, 1);
        ++shared;
      }
    }
    const int bytes = shared * tile_bytes(stored->size);
    if (shared == 0) return rows(view);
    const int64_t edge0 = tile_edge0(stored->size), edge1 = tile_edge1(stored->size);
    // Tiles that are not whole go element by element, four times slower than the generic kernel,
    // whose rows of a narrow matrix share their sectors in L1.
    const bool narrow = view.sizes[0] < edge0 || view.sizes[1] < edge1 ||
                        (!args.vectors && std::min(view.sizes[0], view.sizes[1]) < kNarrow);
    if (narrow) return generic(view);
    const int64_t along0 = ceil_div(view.sizes[0], edge0);
    const int64_t along1 = ceil_div(view.sizes[1], edge1);
    int64_t slabs = 1;
    for (int d = 2; d < view.ndim; ++d) {
      slabs *= view.sizes[d];
      args.dividers[d] = Divider(std::min<int64_t>(view.sizes[d], INT32_MAX));
    }
    const bool too_many =
        along0 > INT32_MAX || along1 > INT32_MAX / along0 || slabs > INT32_MAX / (along0 * along1);
    if (bytes > kMaxSharedBytes || too_many) return generic(view);
    args.row_divider = Divider(along0);
    args.slab_divider = Divider(along1);
    launch("tiled", stored->tiled, args, kMaxRowDims, along0 * along1 * slabs * kBlockThreads, 1,
           kBlockThreads, bytes);
  }

  // Runs the part of a view that has one index along its last dim.
  View without_last_dim(const View& view, int64_t index) const {
    View part = view;
    --part.ndim;
    for (int i = 0; i < plan_.num_operands; ++i) {
      if (part.data[i] != nullptr) part.data[i] += index * operand(i).strides[part.ndim];
    }
    return part;
  }

  static constexpr int64_t kSlabElements = int64_t{1} << 30;
  static constexpr int64_t kMaxSlabs = 65535;  // of a grid along y

  // Note [Slabs]
  void generic(const View& view) const {
    Nested args;
    if (view.ndim > kMaxLoopDims) return each_of_last_dim(view);
    fill_nested(view, args);
    int64_t elements = 1, spans[kMaxOperands] = {}, slabs = 1, chunks = 1;
    int d = 0;
    for (; d < view.ndim; ++d) {
      int64_t most = kSlabElements / elements;
      for (int i = 0; i < plan_.num_operands; ++i) {
        const int64_t stride = std::abs(args.strides[i][d]);
        if (stride != 0) most = std::min(most, (INT32_MAX - spans[i]) / stride + 1);
      }
      const int64_t size = std::min(view.sizes[d], most);
      for (int i = 0; i < plan_.num_operands; ++i)
        spans[i] += (size - 1) * std::abs(args.strides[i][d]);
      args.dividers[d] = Divider(size);
      if (size < view.sizes[d]) {
        chunks = ceil_div(view.sizes[d], size);
        args.chunk_size = size;
        args.chunk_numel = elements * size;
        args.slab_numel = elements * view.sizes[d];
        ++d;
        break;
      }
      elements *= size;
    }
    args.inner_dims = static_cast<int16_t>(d);
    if (chunks == 1) args.chunk_numel = args.slab_numel = elements;
    for (; d < view.ndim; ++d) {
      slabs *= view.sizes[d];
      args.dividers[d] = Divider(std::min<int64_t>(view.sizes[d], INT32_MAX));
    }
    if (chunks > kMaxSlabs || slabs > kMaxSlabs / chunks) return each_of_last_dim(view);
    args.row_divider = Divider(chunks);
    const int64_t threads = ceil_div(args.chunk_numel, kGenericWidth);
    launch("generic", kernels_->generic, args, kMaxLoopDims, threads, slabs * chunks,
           block_threads(threads), 0);
  }

  void each_of_last_dim(const View& view) const {
    for (int64_t index = 0; index < view.sizes[view.ndim - 1]; ++index)
      generic(without_last_dim(view, index));
  }

  const Plan& plan_;
  const OperandSource* sources_;
  const Number* parameters_;
  const Context& context_;
  const ElementwiseKernels* kernels_ = nullptr;
  int type_ = 0, size_ = 1, slots_ = 1;
  int types_[kMaxOperands];
};

}  // namespace

void run_elementwise(const Plan& plan, const OpKernels& kernels, const OperandSource* operands,
                     const Number* parameters, const Context& context) {
  if (plan.numel == 0) return;
  Run(plan, kernels, operands, parameters, context).all();
}

}  // namespace iterlab::cuda
