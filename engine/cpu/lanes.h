// The inner loop of elementwise operators: a functor over contiguous lanes of its compute type.
#pragma once

#include "engine/cpu/kernel_table.h"
#include "engine/cpu/vec_math.h"
#include "iterlab/op.h"

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

// Moving bits needs no vector class, and a vector of complex numbers is no vector of 16-byte
// elements.
template <class Op, class T>
inline constexpr bool uses_lanes =
    Op::moves_bits || !Op::simd || (is_complex_v<T> && !Op::complex_simd);
template <class Op, class T>
using FunctorVector = std::conditional_t<uses_lanes<Op, T>, Lane<T>, Vector<T>>;

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

template <class Op, class T, size_t... inputs, size_t... parameters>
void run_lanes(int64_t count, char* const* data, [[maybe_unused]] const Number* numbers,
               std::index_sequence<inputs...>, std::index_sequence<parameters...>) {
  using V = FunctorVector<Op, T>;
  using Access = LaneAccess<T, V>;
  const Op op{};
  const auto fixed = std::tuple_cat(
      std::tuple<decltype(functor_argument<Op::parameters[parameters].kind, V, T>(*numbers))...>{
          functor_argument<Op::parameters[parameters].kind, V, T>(numbers[parameters])...},
      extra_argument<Op::extra>(numbers + sizeof...(parameters)));
  const auto apply = [&](const auto&... values) {
    return std::apply([&](const auto&... rest) { return op(values..., rest...); }, fixed);
  };
  char* const output = data[0];
  const char* const input[] = {data[1 + inputs]...};
  int64_t i = 0;
  for (; i + Access::width <= count; i += Access::width) {
    Access::store(output, i, apply(Access::load(input[inputs], i)...));
  }
  if constexpr (Access::width > 1) {
    if (const int64_t rest = count - i; rest > 0) {
      Access::store_tail(output, i, apply(Access::load_tail(input[inputs], i, rest)...), rest);
    }
  }
}

template <class Op, class T>
void lanes(int64_t count, char* const* data, const Number* numbers) {
  constexpr size_t functor_parameters = number_parameters<Op>();
  run_lanes<Op, T>(count, data, numbers, std::make_index_sequence<Op::num_inputs>{},
                   std::make_index_sequence<functor_parameters>{});
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

template <class Op, class T>
constexpr LanesFn lanes_or_null() {
  if constexpr (computes_in<Op, T>()) {
    return &lanes<Op, T>;
  } else {
    return nullptr;
  }
}

template <class Op>
constexpr ElementwiseKernels kernels_of() {
#define ITERLAB_ENTRY(type, dtype, text) lanes_or_null<Op, type>(),
  return {{ITERLAB_FORALL_COMPUTE_TYPES(ITERLAB_ENTRY)}};
#undef ITERLAB_ENTRY
}

// Appends the kernels of a list of operators to `table`, in the list's order.
template <class... Ops>
void append_kernels(OpList<Ops...>, const ElementwiseKernels**& next) {
  static constexpr ElementwiseKernels kernels[] = {kernels_of<Ops>()...};
  for (const ElementwiseKernels& one : kernels) *next++ = &one;
}

}  // namespace CPU_CAPABILITY
}  // namespace iterlab::cpu
