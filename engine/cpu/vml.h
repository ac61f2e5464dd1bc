// Vector mathematics of Intel MKL, where the process has it.
#pragma once

#include "engine/cpu/lanes.h"
#include "engine/cpu/vec_elementary.h"
#include "iterlab/ops/elementary.h"
#include "iterlab/ops/special.h"

#include <algorithm>
#include <cstdint>
#include <limits>

namespace iterlab::cpu {

// Note [MKL's vector mathematics]
// libtorch_cpu contains MKL on x86 and exports its vector functions, which ATen's own kernels of
// these operators call. In the first-level cache they are 1.4 to 13 times as fast as SLEEF's and as
// accurate (mode HA, below 1 ulp), but an argument whose result is not an ordinary number (exp of
// -1e9, log of -1, a denormal number) takes them 5 to 15 times as long. So each has a domain, in
// which they are used, element by element; everything else is the functor's, that is SLEEF's.
// A result depends on its element alone: no bit differed over random offsets, lengths and neighbours.
// The functions are declared weak: where torch was built without MKL, the functor's loop runs.
#define ITERLAB_FORALL_VML(_)                                                                     \
  _(Exp, Exp) _(Log, Ln) _(Log2, Log2) _(Log10, Log10) _(Sin, Sin) _(Cos, Cos) _(Tan, Tan)        \
  _(Asin, Asin) _(Acos, Acos) _(Atan, Atan) _(Tanh, Tanh) _(Erf, Erf) _(Erfc, Erfc)               \
  _(Erfinv, ErfInv)

extern "C" {
#define ITERLAB_DECLARE(Op, Name)                                                          \
  __attribute__((weak)) void vms##Name(int count, const float* x, float* y, int64_t mode); \
  __attribute__((weak)) void vmd##Name(int count, const double* x, double* y, int64_t mode);
ITERLAB_FORALL_VML(ITERLAB_DECLARE)
#undef ITERLAB_DECLARE
}

inline namespace CPU_CAPABILITY {

// Besides zero, numbers of normal magnitude up to `largest`; positive ones only of a logarithm.
struct VmlDomain {
  double largest;
  bool zero = true, negative = true;
};

template <class Op, class T>
constexpr VmlDomain vml_domain() {
  constexpr bool kFloat = std::is_same_v<T, float>;
  if constexpr (std::is_same_v<Op, ops::Exp>) {
    return {kFloat ? 87 : 708};
  } else if constexpr (std::is_same_v<Op, ops::Log> || std::is_same_v<Op, ops::Log2> ||
                       std::is_same_v<Op, ops::Log10>) {
    return {std::numeric_limits<T>::max(), false, false};
  } else if constexpr (std::is_same_v<Op, ops::Sin> || std::is_same_v<Op, ops::Cos> ||
                       std::is_same_v<Op, ops::Tan>) {
    return {100};  // beyond, the method, and with it the last digit, depends on the neighbours
  } else if constexpr (std::is_same_v<Op, ops::Asin> || std::is_same_v<Op, ops::Acos>) {
    return {1};
  } else if constexpr (std::is_same_v<Op, ops::Erfinv>) {
    return {kFloat ? 0x1.fffffep-1 : 0x1.fffffffffffffp-1};
  } else if constexpr (std::is_same_v<Op, ops::Erfc>) {
    return {kFloat ? 9 : 26};
  } else {
    return {std::numeric_limits<T>::max()};
  }
}

template <class Op, class T>
ITERLAB_FN auto in_vml_domain(const math::Vec<T>& x) {
  using V = math::Vec<T>;
  constexpr VmlDomain domain = vml_domain<Op, T>();
  const V magnitude = domain.negative ? math::abs(x) : x;
  auto inside = math::both(math::ge(magnitude, V(std::numeric_limits<T>::min())),
                           math::le(magnitude, V(static_cast<T>(domain.largest))));
  if constexpr (domain.zero) inside = math::either(inside, math::eq(x, V(T(0))));
  return inside;
}

// Runs `functor`, a loop over lanes, where MKL is not used.
template <class Op, class T>
void run_vml(void (*function)(int, const T*, T*, int64_t), LanesFn functor, int64_t count,
             char* const* data, const Number* numbers) {
  using V = math::Vec<T>;
  constexpr int64_t kPiece = 2048;  // too small for MKL to share between threads of its own
  // VML_HA (below 1 ulp), VML_FTZDAZ_OFF (denormal numbers as they are), VML_ERRMODE_IGNORE.
  constexpr int64_t kMode = 0x2 | 0x140000 | 0x100;
  const V safe(T(0.5));  // lies in every domain
  alignas(64) T values[kPiece];
  for (int64_t first = 0; first < count; first += kPiece) {
    const int64_t piece = std::min(kPiece, count - first);
    const T* const x = reinterpret_cast<const T*>(data[1]) + first;
    T* const y = reinterpret_cast<T*>(data[0]) + first;
    const auto lanes_at = [&](int64_t i) { return std::min<int64_t>(V::size(), piece - i); };
    const auto load = [&](int64_t i) {
      const int64_t lanes = lanes_at(i);
      return lanes == V::size() ? V::loadu(x + i) : V::set(safe, V::loadu(x + i, lanes), lanes);
    };
    bool all_inside = true;
    for (int64_t i = 0; i < piece; i += V::size()) {
      const V value = load(i);
      const auto inside = in_vml_domain<Op, T>(value);
      all_inside = all_inside && math::all(inside);
      math::select(inside, value, safe).store(values + i);
    }
    function(static_cast<int>(piece), values, all_inside ? y : values, kMode);
    if (all_inside) continue;
    for (int64_t i = 0; i < piece; i += V::size()) {
      const auto inside = in_vml_domain<Op, T>(load(i));
      V result = V::loadu(values + i);
      if (!math::all(inside)) {
        T others[V::size()];
        char* const outside[] = {reinterpret_cast<char*>(others), data[1] + (first + i) * sizeof(T)};
        functor(lanes_at(i), outside, numbers);
        result = math::select(inside, result, V::loadu(others));
      }
      result.store(y + i, static_cast<int>(lanes_at(i)));
    }
  }
}

template <class Op, class T>
void vml_lanes(void (*function)(int, const T*, T*, int64_t), int64_t count, char* const* data,
               const Number* numbers) {
  if (function != nullptr) {
    run_vml<Op, T>(function, &lanes<Op, T>, count, data, numbers);
  } else {
    lanes<Op, T>(count, data, numbers);
  }
}

#define ITERLAB_SPECIALISE(Op, Name)                                                         \
  template <>                                                                                \
  inline void lane_loop<ops::Op, float>(int64_t count, char* const* data, const Number* n) { \
    vml_lanes<ops::Op, float>(&vms##Name, count, data, n);                                   \
  }                                                                                          \
  template <>                                                                                \
  inline void lane_loop<ops::Op, double>(int64_t count, char* const* data, const Number* n) { \
    vml_lanes<ops::Op, double>(&vmd##Name, count, data, n);                                  \
  }
ITERLAB_FORALL_VML(ITERLAB_SPECIALISE)
#undef ITERLAB_SPECIALISE
#undef ITERLAB_FORALL_VML

}  // namespace CPU_CAPABILITY
}  // namespace iterlab::cpu
