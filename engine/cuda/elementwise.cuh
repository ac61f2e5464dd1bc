// The elementwise kernels that take operands of any stored types: rows of groups, and elements at
// any offsets.
#pragma once

#include "engine/cuda/kernel_table.h"
#include "engine/cuda/memory.cuh"
#include "iterlab/lane.h"
#include "iterlab/op.h"

#include <algorithm>
#include <concepts>
#include <tuple>
#include <utility>

namespace iterlab::cuda {

// The facts of one functor that its kernels are compiled from.
template <class Op, class T>
struct Functor {
  static_assert(Op::num_outputs == 1);
  using L = Lane<T>;
  static constexpr int kInputs = Op::num_inputs;
  static constexpr int kOperands = kInputs + 1;

  // Note [Hot storage types]
  static constexpr TypeMask input_types(int i) {
    if (Op::promotion == Promotion::ToArgument) return kAllHot | types<T>;
    if ((Op::bool_inputs >> i & 1u) != 0) return types<bool, T>;
    return hot_inputs<T>;
  }
  static constexpr TypeMask output_types() {
    if (Op::promotion == Promotion::AlwaysBool || Op::promotion == Promotion::FloatToBool)
      return types<bool>;
    if (Op::promotion == Promotion::AlwaysInt) return types<int32_t>;
    if constexpr (is_complex_v<T>) {
      if (Op::promotion == Promotion::ComplexToReal ||
          Op::promotion == Promotion::IntToFloatComplexToReal) {
        return types<typename T::value_type>;
      }
    }
    return hot_outputs<T>;
  }

  // How operands are stored in a call whose other inputs all have type S.
  template <class S, size_t i>
  using Input = std::conditional_t<(Op::bool_inputs >> i & 1u) != 0, bool, S>;
  template <class S>
  static auto output_of() {
    if constexpr (Op::promotion == Promotion::AlwaysBool ||
                  Op::promotion == Promotion::FloatToBool) {
      return std::type_identity<bool>{};
    } else if constexpr (Op::promotion == Promotion::AlwaysInt) {
      return std::type_identity<int32_t>{};
    } else if constexpr (is_complex_v<S> && (Op::promotion == Promotion::ComplexToReal ||
                                             Op::promotion == Promotion::IntToFloatComplexToReal)) {
      return std::type_identity<typename S::value_type>{};
    } else {
      return std::type_identity<S>{};
    }
  }
  template <class S>
  using Output = typename decltype(output_of<S>())::type;

  static constexpr size_t kOwn = number_parameters<Op>();
  using ExtraType = std::conditional_t<Op::extra == Extra::Power, Power, int64_t>;
  static constexpr int kSlots =
      std::max(1, static_cast<int>(kOwn) + (Op::extra == Extra::None ? 0 : 1));
  using Slots = Parameters<kSlots>;
  // What its kernels are launched with: those of rows and tiles, and the generic one.
  using RowArguments = Arguments<kOperands, kSlots, kMaxRowDims>;
  using ElementArguments = Arguments<kOperands, kSlots, kMaxLoopDims>;

  // A parameter as the functor takes it.
  template <size_t p>
  static constexpr ParameterKind kKind = Op::parameters[p].kind;
  template <size_t p>
  static constexpr bool kIsInteger =
      kKind<p> == ParameterKind::Int || kKind<p> == ParameterKind::Bool ||
      kKind<p> == ParameterKind::Choice;
  template <size_t p>
  using ParameterType = std::conditional_t<kKind<p> == ParameterKind::OptionalFloat, Optional<L>,
                                           std::conditional_t<kIsInteger<p>, int64_t, L>>;

  template <size_t p>
  static __device__ __forceinline__ ParameterType<p> parameter(const Slots& parameters) {
    const char* const bytes = parameters.slots[p].bytes;
    if constexpr (kKind<p> == ParameterKind::OptionalFloat) {
      return {L(*reinterpret_cast<const T*>(bytes)), (parameters.given >> p & 1u) != 0};
    } else if constexpr (kIsInteger<p>) {
      return *reinterpret_cast<const int64_t*>(bytes);
    } else {
      return L(*reinterpret_cast<const T*>(bytes));
    }
  }

  template <size_t>
  using InputType = L;
  template <size_t... I, size_t... P>
  static auto result_of(std::index_sequence<I...>, std::index_sequence<P...>) {
    if constexpr (Op::extra == Extra::None) {
      return std::type_identity<decltype(std::declval<Op>()(
          std::declval<InputType<I>>()..., std::declval<ParameterType<P>>()...))>{};
    } else {
      return std::type_identity<decltype(std::declval<Op>()(std::declval<InputType<I>>()...,
                                                            std::declval<ParameterType<P>>()...,
                                                            std::declval<ExtraType>()))>{};
    }
  }
  using Inputs = std::make_index_sequence<kInputs>;
  using OwnParameters = std::make_index_sequence<kOwn>;
  using Result = typename decltype(result_of(Inputs{}, OwnParameters{}))::type::value_type;

  template <size_t... P>
  static __device__ __forceinline__ Result evaluate(const Slots& parameters,
                                                    std::index_sequence<P...>,
                                                    std::convertible_to<L> auto... in) {
    if constexpr (Op::extra == Extra::None) {
      return Op{}(L(in)..., parameter<P>(parameters)...).value;
    } else {
      const int64_t extra = *reinterpret_cast<const int64_t*>(parameters.slots[kOwn].bytes);
      return Op{}(L(in)..., parameter<P>(parameters)..., static_cast<ExtraType>(extra)).value;
    }
  }

  // Note [Long formulas]
  // A group's lanes are evaluated in line, V times the code, for the sake of overlapping them.
  // Where a formula is long, its arithmetic outweighs the memory anyway, and it is a function: the
  // build of double and complex mathematics would be most of the whole otherwise.
  static constexpr bool kLong = Op::cost >= 20 || (Op::cost >= 2 && sizeof(T) >= 8);
  // A kernel must have the registers of what it may call.
  static constexpr int kResidentBlocks = kLong ? 1 : resident_blocks(sizeof(T));
  static constexpr bool kCalls = kLong || sizeof(T) > 8;
  static constexpr int kFullBlocks = kCalls          ? 1
                                     : Op::cost >= 5 ? kFormulaBlocks
                                                     : full_blocks(sizeof(T));
  // (Of two tiles of bytes and a third operand, three blocks would keep some lanes in memory.)
  static constexpr int kTiledBlocks = kLong ? 1 : sizeof(T) == 1 && kInputs > 2 ? 2 : 3;
  static constexpr int kBoxBlocks = kCalls ? 1 : 5;
  static __device__ __noinline__ Result evaluate_call(const Slots& parameters, T a) {
    return evaluate(parameters, OwnParameters{}, a);
  }
  static __device__ __noinline__ Result evaluate_call(const Slots& parameters, T a, T b) {
    return evaluate(parameters, OwnParameters{}, a, b);
  }
  static __device__ __noinline__ Result evaluate_call(const Slots& parameters, T a, T b, T c) {
    return evaluate(parameters, OwnParameters{}, a, b, c);
  }

  // One lane of V: `in` holds a group for each input.
  template <int V, size_t... I>
  static __device__ __forceinline__ Result lane(const Slots& parameters, const T (&in)[kInputs][V],
                                                int j, std::index_sequence<I...>) {
    if constexpr (kLong && kInputs <= 3) {
      return evaluate_call(parameters, in[I][j]...);
    } else {
      return evaluate(parameters, OwnParameters{}, in[I][j]...);
    }
  }

  // The parameter that chooses among formulas, if there is one; else -1.
  template <size_t... P>
  static constexpr int choice_of(std::index_sequence<P...>) {
    int choice = -1;
    ((choice = kKind<P> == ParameterKind::Choice ? static_cast<int>(P) : choice), ...);
    return choice;
  }

  template <int V>
  static __device__ __forceinline__ void apply(const Slots& parameters, const T (&in)[kInputs][V],
                                               Result (&out)[V]) {
    const auto lanes = [&] {
#pragma unroll
      for (int j = 0; j < V; ++j) out[j] = lane<V>(parameters, in, j, Inputs{});
    };
    constexpr int kChoice = choice_of(OwnParameters{});
    if constexpr (kChoice >= 0 && !kLong) {
      // Asked once for all lanes, so that they overlap and share their constants.
      return parameter<kChoice>(parameters) == 0 ? lanes() : lanes();
    }
    lanes();
  }
};

// The elements [first, last) of a group that exist.
struct Extent {
  int first, last;
  template <int V>
  __device__ __forceinline__ bool whole() const {
    return first == 0 && last == V;
  }
  __device__ __forceinline__ bool has(int lane) const { return lane >= first && lane < last; }
};

// Lanes of an operand whose values pass through a half-precision dtype. Note [Rounded operands]
template <class T, int V>
__device__ __noinline__ Group<T, V> round_group(Group<T, V> group, int type) {
  const auto each = [&](const auto& round) {
#pragma unroll
    for (int j = 0; j < V; ++j) group.lane[j] = round(group.lane[j]);
  };
  if (type == type_index(DType::Half)) {
    each([](T x) { return convert<T>(convert<Half>(x)); });
  } else if (type == type_index(DType::BFloat16)) {
    each([](T x) { return convert<T>(convert<BFloat16>(x)); });
  } else {
    each([&](T x) { return round_through(x, type); });
  }
  return group;
}
template <class T, int V>
__device__ __forceinline__ void round_lanes(const KernelOperand& operand, T (&lanes)[V]) {
  if constexpr (std::is_same_v<T, float> || std::is_same_v<T, complex<float>>) {
    if (operand.rounded_to < 0) return;
    Group<T, V> group;
#pragma unroll
    for (int j = 0; j < V; ++j) group.lane[j] = lanes[j];
    group = round_group(group, operand.rounded_to);
#pragma unroll
    for (int j = 0; j < V; ++j) lanes[j] = group.lane[j];
  }
}

// A group on its way into registers. Note [Load, then convert]
template <TypeMask hot, class T, int V>
struct Incoming {
  RawGroup<hot, V> raw;

  __device__ __forceinline__ static bool is_fast(const KernelOperand& operand, Extent extent) {
    return is_hot<hot>(operand.type) && extent.whole<V>() && fills_words(V, operand.size);
  }

  // `data`: of the group's element 0.
  __device__ __forceinline__ void load(const KernelOperand& operand, const char* data,
                                       Extent extent) {
    const bool vectors = operand.access == Access::vectors || operand.access == Access::shared;
    if (vectors && is_fast(operand, extent)) load_raw<hot, V>(data, operand.size, raw);
  }

  __device__ __forceinline__ void finish(const KernelOperand& operand, const char* data,
                                         int64_t stride, Extent extent, T (&group)[V]) {
    if (operand.access == Access::value || operand.access == Access::one) {
      const T x = operand.access == Access::value ? *reinterpret_cast<const T*>(operand.value.bytes)
                  : extent.first < extent.last    ? load_element<T>(data, operand.type)
                                                  : T(0);
#pragma unroll
      for (int j = 0; j < V; ++j) group[j] = x;
    } else if (operand.access != Access::strided && is_fast(operand, extent)) {
      convert_raw<hot, T, V>(raw, operand.type, group);
    } else {
      const Group<T, V> each =
          load_each<T, V>(data, stride, operand.type, extent.first, extent.last);
#pragma unroll
      for (int j = 0; j < V; ++j) group[j] = each.lane[j];
    }
    round_lanes(operand, group);
  }
};

template <TypeMask hot, class T, int V>
__device__ __forceinline__ void store_operand(const KernelOperand& operand, char* data,
                                              int64_t stride, Extent extent, const T (&group)[V]) {
  if (operand.access == Access::vectors && extent.whole<V>() &&
      store_hot<hot>(data, operand.type, group)) {
    return;
  }
  Group<T, V> each;
#pragma unroll
  for (int j = 0; j < V; ++j) each.lane[j] = group[j];
  store_each<T, V>(data, stride, operand.type, extent.first, extent.last, each);
}

// One group of every operand: loads, applies, stores. `data` and `stride` give each operand's
// element 0 and its step.
template <class Op, class T, int V, class Args, class Data, class Stride, size_t... I>
__device__ __forceinline__ void run_group(const Args& args, const Data& data, const Stride& stride,
                                          Extent extent, std::index_sequence<I...>) {
  using F = Functor<Op, T>;
  std::tuple<Incoming<F::input_types(I), T, V>...> incoming;
  (std::get<I>(incoming).load(args.operands[I + 1], data(I + 1), extent), ...);
  T in[F::kInputs][V];
  (std::get<I>(incoming).finish(args.operands[I + 1], data(I + 1), stride(I + 1), extent, in[I]),
   ...);
  typename F::Result out[V];
  F::template apply<V>(args.parameters, in, out);
  round_lanes(args.operands[0], out);
  store_operand<F::output_types()>(args.operands[0], data(0), stride(0), extent, out);
}

// Takes `index` apart along loop dims [from, ndim) and adds up the operands' offsets.
template <class Args, int N>
__device__ __forceinline__ void add_offsets(const Args& args, int from, uint32_t index,
                                            int64_t (&offsets)[N]) {
#pragma unroll 1
  for (int d = from; d < args.ndim; ++d) {
    const uint32_t next = args.dividers[d].divide(index);
    const uint32_t position = index - next * args.dividers[d].divisor;
    index = next;
#pragma unroll
    for (int i = 0; i < N; ++i) {
      offsets[i] += static_cast<int64_t>(position) * args.strides[i][d];
    }
  }
}

// Where a thread's group of V elements is: rows along the innermost dim are cut into groups, which
// start at boundaries of the output. One division for the row, one for each outer dim; none where
// there is one row.
template <class Args, int V>
struct RowGroup {
  int64_t offsets[Args::kOperands] = {};
  int64_t first;  // element of the row, maybe before its start
  Extent extent{0, 0};

  __device__ __forceinline__ RowGroup(const Args& args, int64_t unit) {
    if (unit >= args.units) return;
    int64_t group = unit;
    if (args.ndim > 1) {
      const uint32_t row = args.row_divider.divide(static_cast<uint32_t>(unit));
      group = static_cast<uint32_t>(unit) - row * args.row_divider.divisor;
      add_offsets(args, 1, row, offsets);
    }
    first = group * V;
    if (args.align > 1) {
      const auto address = reinterpret_cast<uintptr_t>(args.operands[0].data + offsets[0]);
      first -= static_cast<int64_t>(address / static_cast<uint32_t>(args.operands[0].size) &
                                    static_cast<uint32_t>(args.align - 1));
    }
    const int64_t rest = args.sizes[0] - first;
    extent = {first < 0 ? static_cast<int>(-first) : 0, rest < V ? static_cast<int>(rest) : V};
  }
  __device__ __forceinline__ bool exists() const { return extent.first < extent.last; }
};

// Operands of any stored types, chosen at run time.
template <class Op, class T, int V>
__global__ void __launch_bounds__(kBlockThreads)
    strided_kernel(const __grid_constant__ typename Functor<Op, T>::RowArguments args) {
  let_next_start();
  const RowGroup<typename Functor<Op, T>::RowArguments, V> place(
      args, static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x);
  wait_for_earlier();
  if (!place.exists()) return;
  const auto stride = [&](int i) -> int64_t { return args.strides[i][0]; };
  const auto data = [&](int i) {
    return args.operands[i].data + place.offsets[i] + place.first * stride(i);
  };
  run_group<Op, T, V>(args, data, stride, place.extent, std::make_index_sequence<Op::num_inputs>{});
}

// The same for V indices into a slab, dim by dim, so that their divisions overlap.
template <class Args, int V, int N>
__device__ __forceinline__ void element_offsets(const Args& args, uint32_t (&index)[V],
                                                int32_t (&offsets)[N][V]) {
#pragma unroll 1
  for (int d = 0; d < args.inner_dims; ++d) {
    const Divider divider = args.dividers[d];
    int32_t strides[N];
#pragma unroll
    for (int i = 0; i < N; ++i) strides[i] = static_cast<int32_t>(args.strides[i][d]);
    const bool is_last = d == args.inner_dims - 1;
#pragma unroll
    for (int j = 0; j < V; ++j) {
      const uint32_t next = is_last ? 0 : divider.divide(index[j]);
      const auto position = static_cast<int32_t>(index[j] - next * divider.divisor);
      index[j] = next;
#pragma unroll
      for (int i = 0; i < N; ++i) offsets[i][j] += position * strides[i];
    }
  }
}

// Offsets for every element, in iteration order: expresses every call. A thread takes V elements a
// block apart, so that neighbours are accessed together.
template <class Op, class T, int V, size_t... I>
__device__ __forceinline__ void run_elements(const typename Functor<Op, T>::ElementArguments& args,
                                             std::index_sequence<I...>) {
  using F = Functor<Op, T>;
  constexpr int N = F::kOperands;
  // Note [Slabs]
  const uint32_t outer = args.row_divider.divide(blockIdx.y);
  const int64_t chunk = blockIdx.y - outer * args.row_divider.divisor;
  int64_t base[N] = {};
  add_offsets(args, args.inner_dims, outer, base);
  if (args.row_divider.divisor > 1) {
#pragma unroll
    for (int i = 0; i < N; ++i) {
      base[i] += chunk * args.chunk_size * args.strides[i][args.inner_dims - 1];
    }
  }
  const int64_t numel = min(args.chunk_numel, args.slab_numel - chunk * args.chunk_numel);
  bool valid[V];
  uint32_t index[V];
#pragma unroll
  for (int j = 0; j < V; ++j) {
    index[j] = blockIdx.x * (blockDim.x * V) + threadIdx.x + j * blockDim.x;
    valid[j] = index[j] < numel;
    if (!valid[j]) index[j] = 0;  // which exists, so that loads need not ask
  }
  int32_t offsets[N][V] = {};
  element_offsets(args, index, offsets);
  wait_for_earlier();
  T in[F::kInputs][V];
  std::tuple<RawGroup<F::input_types(I), V>...> raw;
  const auto is_fast = [&](auto i) {
    constexpr int k = decltype(i)::value;
    return is_hot<F::input_types(k)>(args.operands[k + 1].type) &&
           args.operands[k + 1].access != Access::value;
  };
  const auto load = [&](auto i) {
    constexpr int k = decltype(i)::value;
    const KernelOperand& operand = args.operands[k + 1];
    if (is_fast(i)) {
      gather_raw<F::input_types(k), V>(operand.data + base[k + 1], offsets[k + 1], operand.size,
                                       std::get<k>(raw));
    }
  };
  const auto finish = [&](auto i) {
    constexpr int k = decltype(i)::value;
    const KernelOperand& operand = args.operands[k + 1];
    if (is_fast(i)) {
      convert_gathered<F::input_types(k), T, V>(std::get<k>(raw), operand.type, in[k]);
    } else {
#pragma unroll
      for (int j = 0; j < V; ++j) {
        in[k][j] =
            operand.access == Access::value
                ? *reinterpret_cast<const T*>(operand.value.bytes)
                : load_element<T>(operand.data + base[k + 1] + offsets[k + 1][j], operand.type);
      }
    }
    round_lanes(operand, in[k]);
  };
  (load(std::integral_constant<int, I>{}), ...);
  (finish(std::integral_constant<int, I>{}), ...);
  typename F::Result out[V];
  F::template apply<V>(args.parameters, in, out);
  const KernelOperand& output = args.operands[0];
  round_lanes(output, out);
  char* const to = output.data + base[0];
  if (scatter_hot<F::output_types()>(to, offsets[0], valid, output.type, out)) return;
#pragma unroll
  for (int j = 0; j < V; ++j) {
    if (valid[j]) store_element(to + offsets[0][j], output.type, out[j]);
  }
}

template <class Op, class T, int V>
__global__ void __launch_bounds__(kBlockThreads, Functor<Op, T>::kResidentBlocks)
    generic_kernel(const __grid_constant__ typename Functor<Op, T>::ElementArguments args) {
  let_next_start();
  run_elements<Op, T, V>(args, std::make_index_sequence<Op::num_inputs>{});
}

}  // namespace iterlab::cuda
