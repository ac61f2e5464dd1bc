// A call of an elementwise operator, as launches of its kernels see it.
#pragma once

#include "engine/cuda/arguments.h"
#include "engine/cuda/elementwise.h"
#include "engine/cuda/launch.h"
#include "engine/cuda/pack.h"
#include "iterlab/op.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace iterlab::cuda {

inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// The dims of a launch: the plan's, or a part of them where one launch cannot hold all.
struct View {
  int ndim = 0;
  int64_t sizes[kMaxDims];
  char* data[kMaxOperands];
};

class ElementwiseCall {
 public:
  ElementwiseCall(const Plan& plan, const OpKernels& kernels, const OperandSource* operands,
                  const Number* parameters, const Context& context)
      : plan_(plan), sources_(operands), parameters_(parameters), context_(context) {
    choose_types();
    kernels_ = &kernels.by_type[type_];
    slots_ = count_slots(*plan.op);
  }

 protected:
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
    const bool rounds = operand(i).rounded && (i < plan_.num_outputs || reads_memory(i));
    to.rounded_to = static_cast<int16_t>(rounds ? rounding_type(i) : -1);
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

  // The kernels whose tiles take the operands; null where there are none.
  const StoredKernels* tile_kernels() const {
    const StoredKernels* const stored = stored_kernels();
    if (stored != nullptr && stored->tiled != nullptr) return stored;
    const StoredKernels& mixing = kernels_->stored[0];
    if (mixing.tiled == nullptr || types_[0] != mixing.output || operand(0).rounded) return nullptr;
    for (int i = plan_.num_outputs; i < plan_.num_operands; ++i) {
      const bool fits = is_bool_input(i) ? types_[i] == type_index(DType::Bool)
                                         : (mixing.tile_inputs >> types_[i] & 1u) != 0;
      if (reads_memory(i) && (operand(i).rounded || !fits)) return nullptr;
    }
    return &mixing;
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

  const Plan& plan_;
  const OperandSource* sources_;
  const Number* parameters_;
  const Context& context_;
  const ElementwiseKernels* kernels_ = nullptr;
  int type_ = 0, size_ = 1, slots_ = 1;
  int types_[kMaxOperands];
};

}  // namespace iterlab::cuda
