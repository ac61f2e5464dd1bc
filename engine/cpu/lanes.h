// The inner loop of elementwise operators: a functor over contiguous lanes of its compute type.
#pragma once

#include "engine/cpu/kernel_table.h"
#include "engine/cpu/lane_formats.h"
#include "engine/cpu/stream.h"
#include "engine/cpu/vec_math.h"
#include "iterlab/op.h"

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

namespace iterlab::cpu {
inline namespace CPU_CAPABILITY {

// Loads and stores one V; the tail is a vector too, so that no element's result depends on its
// position.
template <class T, class V = Vector<T>>
struct LaneAccess {
  static constexpr int64_t width = V::size();
  static V load(const char* data, int64_t i) {
    return V::loadu(reinterpret_cast<const T*>(data) + i);
  }
  static V load_tail(const char* data, int64_t i, int64_t count) {
    return V::loadu(reinterpret_cast<const T*>(data) + i, count);
  }
  static void store(char* data, int64_t i, const V& value) {
    value.store(reinterpret_cast<T*>(data) + i);
  }
  static void store_tail(char* data, int64_t i, const V& value, int64_t count) {
    value.store(reinterpret_cast<T*>(data) + i, static_cast<int>(count));
  }
};

template <class T>
struct LaneAccess<T, Lane<T>> {
  static constexpr int64_t width = 1;
  static Lane<T> load(const char* data, int64_t i) { return reinterpret_cast<const T*>(data)[i]; }
  static void store(char* data, int64_t i, Lane<T> value) {
    reinterpret_cast<T*>(data)[i] = value.value;
  }
};

// Bools as bytes: GCC 12 makes no vectors of loops that negate a bool, or choose by one, but of
// such that compare bytes. (Besides, a byte other than 0 and 1 is true.)
template <>
struct LaneAccess<bool, Lane<bool>> {
  static constexpr int64_t width = 1;
  static Lane<bool> load(const char* data, int64_t i) { return Lane<bool>(data[i] != 0); }
  static void store(char* data, int64_t i, Lane<bool> value) {
    data[i] = static_cast<char>(value.value);
  }
};

// A byte of 1 or 0 for each double of a vector that is true or not, the first one lowest.
#if defined(CPU_CAPABILITY_AVX512)
ITERLAB_FN auto truth_of(const Vector<double>& x) {
  const __mmask8 is_true = _mm512_cmp_pd_mask(x, _mm512_setzero_pd(), _CMP_NEQ_UQ);
  return _mm_cvtsi128_si64(_mm_maskz_set1_epi8(is_true, 1));
}
#elif defined(CPU_CAPABILITY_AVX2)
ITERLAB_FN auto truth_of(const Vector<double>& x) {
  const int is_true = _mm256_movemask_pd(_mm256_cmp_pd(x, _mm256_setzero_pd(), _CMP_NEQ_UQ));
  return (is_true * 0x00204081) & 0x01010101;  // a bit to each byte
}
#else
ITERLAB_FN auto truth_of(const Vector<double>& x) {
  alignas(16) double lanes[Vector<double>::size()];
  x.store(lanes);
  std::array<char, Vector<double>::size()> truth;
  for (size_t i = 0; i < truth.size(); ++i) truth[i] = static_cast<char>(lanes[i] != 0);
  return truth;
}
#endif

// What tells true from false is written as bools, whatever it was computed in.
template <class T, class V>
struct TruthAccess {
  static void store(char* data, int64_t i, const V& value) {
    if constexpr (std::is_same_v<T, double>) {
      store_element(data + i, 0, truth_of(value));
    } else {
      store_tail(data, i, value, V::size());
    }
  }
  static void store_tail(char* data, int64_t i, const V& value, int64_t count) {
    if constexpr (std::is_same_v<T, float>) {
      store_lanes<bool>(data + i, value, count, Store::Cached);
    } else {
      T lanes[V::size()];
      value.store(lanes);
      for (int64_t lane = 0; lane < count; ++lane)
        data[i + lane] = static_cast<char>(math::is_true(Lane<T>(lanes[lane])));
    }
  }
};
template <class T>
struct TruthAccess<T, Lane<T>> {
  static void store(char* data, int64_t i, Lane<T> value) {
    data[i] = static_cast<char>(math::is_true(value));
  }
};
template <class Op, class T, class V>
using ResultAccess =
    std::conditional_t<gives_bool(Op::promotion), TruthAccess<T, V>, LaneAccess<T, V>>;

// Moving bits needs no vector class, and a vector of complex numbers is no vector of 16-byte
// elements.
template <class Op, class T>
inline constexpr bool uses_lanes =
    Op::moves_bits || !Op::simd || (is_complex_v<T> && !Op::complex_simd);
template <class Op, class T>
using FunctorVector = std::conditional_t<uses_lanes<Op, T>, Lane<T>, Vector<T>>;

// Note [Upper halves]
// While the upper half of a vector register is in use, each SSE instruction waits for the one
// before. Loops over single floating and complex numbers call the C library, which has some
// functions in SSE, and a compiler cleans the registers after its own function only. Where a system
// call or a page fault leaves them in use (in some sandboxes), a sigmoid of complex numbers took 7
// times as long. So they are cleaned before every piece of such a loop, smaller than a page.
inline constexpr int64_t kScalarPiece = 128;
template <class Op, class T>
inline constexpr bool calls_library = uses_lanes<Op, T> && !Op::moves_bits && Op::cost >= 2;
ITERLAB_FN void zero_upper_halves() {
#if defined(CPU_CAPABILITY_AVX2) || defined(CPU_CAPABILITY_AVX512)
  _mm256_zeroupper();
#endif
}

// A parameter as the functor takes it.
template <ParameterKind kind, class V, class T>
auto functor_argument(const Number& number) {
  if constexpr (kind == ParameterKind::OptionalFloat) {
    return Optional<V>{V(number.is_none() ? T(0) : number.to<T>()), !number.is_none()};
  } else if constexpr (kind == ParameterKind::Int || kind == ParameterKind::Bool ||
                       kind == ParameterKind::Choice) {
    return number.integer;
  } else {
    return V(number.to<T>());
  }
}

// What the functor takes after its parameters.
template <Extra extra>
auto extra_argument([[maybe_unused]] const Number* number) {
  if constexpr (extra == Extra::Power) {
    return std::tuple{power_of(*number)};
  } else if constexpr (extra == Extra::DType) {
    return std::tuple{number->integer};
  } else {
    return std::tuple{};
  }
}

template <class Op, class V, class T, size_t... parameters>
auto functor_arguments([[maybe_unused]] const Number* numbers, std::index_sequence<parameters...>) {
  return std::tuple_cat(
      std::tuple<decltype(functor_argument<Op::parameters[parameters].kind, V, T>(*numbers))...>{
          functor_argument<Op::parameters[parameters].kind, V, T>(numbers[parameters])...},
      extra_argument<Op::extra>(numbers + sizeof...(parameters)));
}

// The functor with its parameters bound: a function of the inputs' lanes.
template <class Op, class V, class T>
auto bind_parameters(const Number* numbers) {
  return
      [fixed = functor_arguments<Op, V, T>(
           numbers, std::make_index_sequence<number_parameters<Op>()>{})](const auto&... values) {
        return std::apply([&](const auto&... rest) { return Op{}(values..., rest...); }, fixed);
      };
}

template <class Op, class T, size_t... inputs>
void run_lanes(int64_t count, char* const* data, const Number* numbers,
               std::index_sequence<inputs...>) {
  using V = FunctorVector<Op, T>;
  using Access = LaneAccess<T, V>;
  using Result = ResultAccess<Op, T, V>;
  const auto apply = bind_parameters<Op, V, T>(numbers);
  char* const output = data[0];
  const char* const input[] = {data[1 + inputs]...};
  int64_t i = 0;
  const auto run_to = [&](int64_t end) {
    for (; i + Access::width <= end; i += Access::width) {
      Result::store(output, i, apply(Access::load(input[inputs], i)...));
    }
  };
  if constexpr (calls_library<Op, T>) {
    while (i < count) {
      zero_upper_halves();
      run_to(std::min(count, i + kScalarPiece));
    }
  } else {
    run_to(count);
  }
  if constexpr (Access::width > 1) {
    if (const int64_t rest = count - i; rest > 0) {
      Result::store_tail(output, i, apply(Access::load_tail(input[inputs], i, rest)...), rest);
    }
  }
}

template <class Op, class T>
void lanes(int64_t count, char* const* data, const Number* numbers) {
  run_lanes<Op, T>(count, data, numbers, std::make_index_sequence<Op::num_inputs>{});
}

// A block of lanes, after which each pointer is at the next.
template <class Apply, size_t... inputs>
ITERLAB_FN void run_block(const Apply& apply, const LaneFormats& formats, const int64_t* widths,
                          char** pointers, int64_t lanes, Store store,
                          std::index_sequence<inputs...>) {
  FloatBlock loaded[sizeof...(inputs)], result;
  (load_block(formats.dtype[1 + inputs], pointers[1 + inputs], lanes, loaded[inputs]), ...);
#pragma GCC unroll 4
  for (int v = 0; v < kBlockVectors; ++v) result[v] = apply(loaded[inputs][v]...);
  store_block(formats.dtype[0], pointers[0], result, lanes, store);
  for (size_t i = 0; i <= sizeof...(inputs); ++i) pointers[i] += lanes * widths[i];
}

// Rows of floats, of which some are repeated: nothing to convert, and no switch for each block.
template <class Op, size_t... inputs>
void run_float_lanes(const LaneRows& tile, char* const* data, const LaneFormats& formats,
                     const Number* numbers, std::index_sequence<inputs...>) {
  using Access = LaneAccess<float, FloatVector>;
  const auto apply = bind_parameters<Op, FloatVector, float>(numbers);
  // Of a repeated operand, index 0.
  const int64_t kept[] = {(formats.repeated >> (1 + inputs) & 1u) != 0 ? 0 : ~int64_t{0}...};
  for (int64_t row = 0; row < tile.rows; ++row) {
    char* const output = data[0] + row * tile.pitches[0];
    const char* const input[] = {data[1 + inputs] + row * tile.pitches[1 + inputs]...};
    int64_t i = 0;
    for (; i + Access::width <= tile.inner; i += Access::width) {
      Access::store(output, i, apply(Access::load(input[inputs], i & kept[inputs])...));
    }
    if (const int64_t rest = tile.inner - i; rest > 0) {
      Access::store_tail(output, i,
                         apply(Access::load_tail(input[inputs], i & kept[inputs], rest)...), rest);
    }
  }
}

// Row after row, block after block. The first block of a streamed row ends where a cache line does;
// what follows is read and written at four places in turn: Note [Streams]. (A contiguous add of 64
// MiB operands: 1.3 times as fast.)
template <class Op, size_t... inputs>
void run_converting_lanes(const LaneRows& tile, char* const* data, const LaneFormats& formats,
                          const Number* numbers, std::index_sequence<inputs...> sequence) {
  constexpr size_t kOperands = 1 + sizeof...(inputs);
  const auto apply = bind_parameters<Op, FloatVector, float>(numbers);
  int64_t widths[kOperands];
  static_assert(kBlockLanes <= kRepeatedLanes);
  for (size_t i = 0; i < kOperands; ++i)
    widths[i] = (formats.repeated >> i & 1u) != 0 ? 0 : element_size(formats.dtype[i]);
  for (int64_t row = 0; row < tile.rows; ++row) {
    char* pointers[kStreams][kOperands] = {
        {data[0] + row * tile.pitches[0], data[1 + inputs] + row * tile.pitches[1 + inputs]...}};
    int64_t left = tile.inner;
    if (formats.streamed) {
      const auto past = static_cast<int64_t>(reinterpret_cast<uintptr_t>(pointers[0][0]) % 64);
      if (past != 0) {
        const int64_t head = std::min((64 - past) / widths[0], left);
        run_block(apply, formats, widths, pointers[0], head, Store::Cached, sequence);
        left -= head;
      }
    }
    const Store store = formats.streamed ? Store::Streamed : Store::Cached;
    const bool is_long = left * widths[0] >= kStreams * kStreamRun;
    const int64_t streams = formats.streamed && is_long ? kStreams : 1;
    const int64_t apart = left / streams / kBlockLanes * kBlockLanes;
    for (int64_t s = 1; s < streams; ++s) {
      for (size_t i = 0; i < kOperands; ++i)
        pointers[s][i] = pointers[0][i] + s * apart * widths[i];
    }
    for (int64_t done = 0; done < apart; done += kBlockLanes) {
      for (int64_t s = 0; s < streams; ++s)
        run_block(apply, formats, widths, pointers[s], kBlockLanes, store, sequence);
    }
    char** const last = pointers[streams - 1];
    for (left -= streams * apart; left > 0; left -= kBlockLanes) {
      const int64_t lanes = std::min(left, kBlockLanes);
      run_block(apply, formats, widths, last, lanes, Store::Cached, sequence);
    }
  }
}

// Rows of halves of one dtype, whose signs are all that changes: nothing to convert.
template <class Op, size_t... inputs>
void run_stored_halves(const LaneRows& tile, char* const* data, std::index_sequence<inputs...>) {
  const int64_t inner = tile.inner;
  for (int64_t row = 0; row < tile.rows; ++row) {
    char* const output = data[0] + row * tile.pitches[0];
    const char* const input[] = {data[1 + inputs] + row * tile.pitches[1 + inputs]...};
    for (int64_t i = 0; i < inner; ++i) {
      const auto result = Op{}(math::StoredHalf{load_element<uint16_t>(input[inputs], i)}...);
      store_element(output, i, result.bits);
    }
  }
}

template <class Op>
void converting_lanes(const LaneRows& tile, char* const* data, const LaneFormats& formats,
                      const Number* numbers) {
  constexpr auto kInputs = std::make_index_sequence<Op::num_inputs>{};
  const auto all_are = [&](DType dtype) {
    return std::count(formats.dtype, formats.dtype + 1 + Op::num_inputs, dtype) ==
           1 + Op::num_inputs;
  };
  if constexpr (Op::changes_signs_only) {
    if (!formats.streamed && (all_are(DType::Half) || all_are(DType::BFloat16)))
      return run_stored_halves<Op>(tile, data, kInputs);
  }
  if (!formats.streamed && all_are(DType::Float)) {
    run_float_lanes<Op>(tile, data, formats, numbers, kInputs);
  } else {
    run_converting_lanes<Op>(tile, data, formats, numbers, kInputs);
  }
}

// Whether some dtype of the operator is computed in T.
template <class Op, class T>
constexpr bool computes_in() {
  if (Op::moves_bits) {
    return std::is_same_v<T, uint8_t> || std::is_same_v<T, uint16_t> ||
           std::is_same_v<T, uint32_t> || std::is_same_v<T, uint64_t> ||
           std::is_same_v<T, c10::complex<double>>;
  }
  bool found = false;
#define ITERLAB_FIND(type, dtype, text) \
  found = found ||                      \
          (kDTypesOf<Op>.contains(DType::dtype) && compute_dtype(DType::dtype) == dtype_of<T>);
  ITERLAB_FORALL_STORAGE_TYPES(ITERLAB_FIND)
#undef ITERLAB_FIND
  return found;
}

// The loop of an operator and a compute type; specialised where there is a better one than the
// functor's.
template <class Op, class T>
void lane_loop(int64_t count, char* const* data, const Number* numbers) {
  lanes<Op, T>(count, data, numbers);
}

template <class Op, class T>
constexpr LanesFn lanes_or_null() {
  if constexpr (computes_in<Op, T>()) {
    return &lane_loop<Op, T>;
  } else {
    return nullptr;
  }
}

template <class Op>
constexpr ElementwiseKernels kernels_of() {
#define ITERLAB_ENTRY(type, dtype, text) lanes_or_null<Op, type>(),
  ElementwiseKernels kernels{{ITERLAB_FORALL_COMPUTE_TYPES(ITERLAB_ENTRY)}, nullptr};
#undef ITERLAB_ENTRY
  if constexpr (converts_lanes<Op>()) kernels.converting = &converting_lanes<Op>;
  return kernels;
}

// Appends the kernels of a list of operators to `table`, in the list's order.
template <class... Ops>
void append_kernels(OpList<Ops...>, const ElementwiseKernels**& next) {
  static constexpr ElementwiseKernels kernels[] = {kernels_of<Ops>()...};
  for (const ElementwiseKernels& one : kernels) *next++ = &one;
}

}  // namespace CPU_CAPABILITY
}  // namespace iterlab::cpu
