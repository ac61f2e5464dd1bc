// Vector mathematics of Intel MKL, where the process has it.
#pragma once

#include "engine/cpu/cast.h"
#include "engine/cpu/lanes.h"
#include "engine/cpu/stream.h"
#include "engine/cpu/vec_elementary.h"
#include "engine/cpu/vec_special.h"
#include "engine/path.h"
#include "iterlab/ops/activation.h"
#include "iterlab/ops/elementary.h"
#include "iterlab/ops/special.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

namespace iterlab::cpu {

// Note [MKL's vector mathematics]
// libtorch_cpu contains MKL on x86 and exports its vector functions, which ATen's own kernels of
// these operators call. In the first-level cache they are 1.4 to 13 times as fast as SLEEF's and as
// accurate (mode HA, below 1 ulp), but an argument whose result is not an ordinary number (exp of
// -1e9, log of -1, a denormal number) takes them 5 to 15 times as long. So each has a domain, in
// which they are used, element by element; everything else is the functor's, that is SLEEF's.
// A result depends on its element alone: no bit differed over random offsets, lengths and
// neighbours. The functions are declared weak: where torch was built without MKL, the functor's
// loop runs.
#define ITERLAB_FORALL_VML(_) \
  _(Exp, Exp)                 \
  _(Log, Ln)                  \
  _(Log2, Log2)               \
  _(Log10, Log10)             \
  _(Sin, Sin)                 \
  _(Cos, Cos)                 \
  _(Tan, Tan)                 \
  _(Asin, Asin)               \
  _(Acos, Acos)               \
  _(Atan, Atan)               \
  _(Tanh, Tanh)               \
  _(Erf, Erf)                 \
  _(Erfc, Erfc)               \
  _(Erfinv, ErfInv)

extern "C" {
#define ITERLAB_DECLARE(Op, Name)                                                          \
  __attribute__((weak)) void vms##Name(int count, const float* x, float* y, int64_t mode); \
  __attribute__((weak)) void vmd##Name(int count, const double* x, double* y, int64_t mode);
ITERLAB_FORALL_VML(ITERLAB_DECLARE)
#undef ITERLAB_DECLARE
__attribute__((weak)) int MKL_Set_Num_Threads_Local(int threads);
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

template <class T>
using BitsOf = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;

// A number's distance from the smallest of the domain, for one comparison with kReach: numbers
// outside, and zero too, are farther. Integers, for loops that become vectors.
template <class Op, class T>
struct DomainBits {
  using Bits = BitsOf<T>;
  static constexpr VmlDomain kDomain = vml_domain<Op, T>();
  static constexpr Bits kSmallest = std::bit_cast<Bits>(std::numeric_limits<T>::min());
  static constexpr Bits kReach = std::bit_cast<Bits>(static_cast<T>(kDomain.largest)) - kSmallest;
  static constexpr Bits magnitude(Bits bits) {
    return kDomain.negative ? bits & (~Bits{0} >> 1) : bits;
  }
  static constexpr Bits distance(Bits bits) { return magnitude(bits) - kSmallest; }
  static constexpr bool is_outside(Bits bits) {
    return (distance(bits) > kReach) & !(kDomain.zero & (magnitude(bits) == 0));
  }
};

// What is known without a function, of numbers outside the domain: most of those that real data
// has there (log of zero, exp of a mask's -1e9). Comparisons and constants alone, for loops that
// become vectors.
template <class T>
constexpr bool is_subnormal_or_zero(T x) {
  return x < std::numeric_limits<T>::min() && x > -std::numeric_limits<T>::min();
}
// nan, or what the functions below that have no value there return.
template <class T>
constexpr T nan_of(T x) {
  return x == x ? std::numeric_limits<T>::quiet_NaN() : x + x;
}
template <class Op, class T>
struct Known {
  static constexpr bool is_known(T) { return false; }
  static constexpr T at(T x) { return x; }
};
template <class Op, class T>
  requires std::is_same_v<Op, ops::Log> || std::is_same_v<Op, ops::Log2> ||
           std::is_same_v<Op, ops::Log10>
struct Known<Op, T> {
  static constexpr bool is_known(T x) { return !(x > 0 && is_subnormal_or_zero(x)); }
  static constexpr T at(T x) {
    const T not_zero = x > 0 ? x : nan_of(x);  // infinity
    return x == 0 ? -std::numeric_limits<T>::infinity() : not_zero;
  }
};
template <class T>
struct Known<ops::Exp, T> {
  static constexpr T kZeroBelow = sizeof(T) == 4 ? -104 : -746;
  static constexpr T kInfiniteFrom = sizeof(T) == 4 ? 89 : 710;
  static constexpr bool is_known(T x) {
    return is_subnormal_or_zero(x) || !(x >= kZeroBelow && x < kInfiniteFrom);
  }
  static constexpr T at(T x) {
    const T small = x < kZeroBelow ? T(0) : T(1);
    const T not_nan = x >= kInfiniteFrom ? std::numeric_limits<T>::infinity() : small;
    return x == x ? not_nan : x + x;
  }
};
template <class Op, class T>
  requires std::is_same_v<Op, ops::Sin> || std::is_same_v<Op, ops::Tan> ||
           std::is_same_v<Op, ops::Atan> || std::is_same_v<Op, ops::Tanh>
struct Known<Op, T> {
  static constexpr bool is_known(T x) { return is_subnormal_or_zero(x); }
  static constexpr T at(T x) { return x; }
};
template <class T>
struct Known<ops::Asin, T> {
  static constexpr bool is_known(T x) { return is_subnormal_or_zero(x) || !(x >= -1 && x <= 1); }
  static constexpr T at(T x) { return is_subnormal_or_zero(x) ? x : nan_of(x); }
};
template <class T>
struct Known<ops::Acos, T> {
  static constexpr bool is_known(T x) { return !(x >= -1 && x <= 1); }
  static constexpr T at(T x) { return nan_of(x); }
};
template <class T>
struct Known<ops::Erfinv, T> {
  static constexpr bool is_known(T x) { return !(x > -1 && x < 1); }
  static constexpr T at(T x) {
    const T infinity = std::numeric_limits<T>::infinity();
    const T not_one = x == -1 ? -infinity : nan_of(x);
    return x == 1 ? infinity : not_one;
  }
};

// Whether any of `count` numbers lies outside: one maximum, and only if that is beyond, which a
// zero makes it, each number's own comparisons. Of the four quarters in turn: a maximum of 64-bit
// integers waits for the one before.
template <class Op, class T>
bool any_outside(const char* x, int64_t count) {
  using Domain = DomainBits<Op, T>;
  using Bits = BitsOf<T>;
  constexpr int kQuarters = 4;
  Bits farthest = 0, part[kQuarters] = {};
  const int64_t quarter = count / kQuarters;
  const auto distance = [x](int64_t i) { return Domain::distance(load_element<Bits>(x, i)); };
  for (int64_t i = 0; i < quarter; ++i) {
    for (int q = 0; q < kQuarters; ++q) part[q] = std::max(part[q], distance(q * quarter + i));
  }
  for (int64_t i = kQuarters * quarter; i < count; ++i) farthest = std::max(farthest, distance(i));
  for (const Bits far : part) farthest = std::max(farthest, far);
  if (farthest <= Domain::kReach) return false;
  Bits outside = 0;
  for (int64_t i = 0; i < count; ++i)
    outside |= static_cast<Bits>(Domain::is_outside(load_element<Bits>(x, i)));
  return outside != 0;
}

// While it lives, MKL's functions stay on the calling thread. Left alone, each call of one in a
// parallel region opens a region of its own, of one thread: 0.8 us, with which two threads took as
// long as one.
class MklOnThisThread {
 public:
  MklOnThisThread() {
    if (MKL_Set_Num_Threads_Local != nullptr) before_ = MKL_Set_Num_Threads_Local(1);
  }
  ~MklOnThisThread() {
    if (MKL_Set_Num_Threads_Local != nullptr) MKL_Set_Num_Threads_Local(before_);
  }
  MklOnThisThread(const MklOnThisThread&) = delete;
  MklOnThisThread& operator=(const MklOnThisThread&) = delete;

 private:
  int before_ = 0;
};

inline constexpr int64_t kVmlPiece = 2048;  // too small for MKL to share between threads

// Values of `count` numbers of which some lie outside the domain: the domain's of `function`, with
// another number in the place of those outside, then what is known, and only if something is left,
// `functor`, a loop over lanes, for all of them.
template <class Op, class T, class Fn>
void run_mixed(Fn function, LanesFn functor, int64_t count, char* x, char* result,
               const Number* numbers) {
  using Bits = BitsOf<T>;
  constexpr T kSafe = T(0.5);  // lies in every domain
  alignas(64) T inside[kVmlPiece], others[kVmlPiece];
  Bits unknown = 0;
  const auto is_outside = [](T value) {
    return DomainBits<Op, T>::is_outside(std::bit_cast<Bits>(value));
  };
  for (int64_t i = 0; i < count; ++i) {
    const T value = load_element<T>(x, i);
    const bool outside = is_outside(value);
    inside[i] = outside ? kSafe : value;
    unknown |= static_cast<Bits>(outside & !Known<Op, T>::is_known(value));
  }
  function(inside, inside);
  char* const data[] = {reinterpret_cast<char*>(others), x};
  if (unknown != 0) functor(count, data, numbers);
  for (int64_t i = 0; i < count; ++i) {
    const T value = load_element<T>(x, i);
    const T other = Known<Op, T>::is_known(value) ? Known<Op, T>::at(value) : others[i];
    store_element(result, i, is_outside(value) ? other : inside[i]);
  }
}

// Functions that take about as long as the memory does. Streamed stores come in bursts, and the
// memory is idle while a slower one computes: erf of 64 MiB took 1.1 times as long with them.
template <class Op>
inline constexpr bool kIsFast =
    std::is_same_v<Op, ops::Exp> || std::is_same_v<Op, ops::Log> || std::is_same_v<Op, ops::Log2> ||
    std::is_same_v<Op, ops::Log10> || std::is_same_v<Op, ops::Tanh>;

// Note [Checked afterwards]
// A piece whose numbers are checked first waits for memory in the check, and computes after that.
// So where the pieces before had nothing outside the domain, the function runs at once, reads while
// it computes, and the check finds the numbers in the cache: log of 2 MiB took 0.7 times as long.
// Once one was mistaken, and for the first of a call, the check goes first; and always where the
// numbers lie in the second-level cache, likely, and a mistake would cost as much as the call.
inline constexpr int64_t kBeyondCacheBytes = int64_t{1} << 20;

template <class Op, class T>
void run_vml(void (*function)(int, const T*, T*, int64_t), LanesFn functor, int64_t count,
             char* const* data, const Number* numbers) {
  // VML_HA (below 1 ulp), VML_FTZDAZ_OFF (denormal numbers as they are), VML_ERRMODE_IGNORE.
  constexpr int64_t kMode = 0x2 | 0x140000 | 0x100;
  const MklOnThisThread on_this_thread;
  const int64_t all_bytes = count * int64_t{sizeof(T)};
  const bool in_place = data[0] == data[1];
  // A thread's part of a result that Note [Streaming stores] is about.
  const bool streamed = kIsFast<Op> && !in_place && all_bytes >= kStreamFromBytes / 4;
  alignas(64) T values[kVmlPiece];
  bool expects_clean = all_bytes >= kBeyondCacheBytes;
  for (int64_t first = 0; first < count; first += kVmlPiece) {
    const auto offset = first * static_cast<int64_t>(sizeof(T));
    char *const x = data[1] + offset, *const y = data[0] + offset;
    const int64_t piece = std::min(kVmlPiece, count - first);
    const int64_t bytes = piece * int64_t{sizeof(T)};
    const auto run = [&](const void* from, void* to) {
      function(static_cast<int>(piece), static_cast<const T*>(from), static_cast<T*>(to), kMode);
    };
    char* const result = in_place || streamed ? reinterpret_cast<char*>(values) : y;
    const bool at_once = expects_clean && first > 0;
    if (at_once) run(x, result);
    const bool clean = !any_outside<Op, T>(x, piece);
    if (!clean) {
      run_mixed<Op, T>(run, functor, piece, x, result, numbers);
    } else if (!at_once) {
      run(x, result);
    }
    expects_clean = expects_clean && clean;
    if (streamed) {
      // Reads of the next piece go with these writes.
      const int64_t next = std::min(kVmlPiece, count - first - piece) * int64_t{sizeof(T)};
      for (int64_t b = 0; b < next; b += 64) __builtin_prefetch(x + sizeof(values) + b);
      stream_rows(reinterpret_cast<const char*>(values), y, 0, bytes, 1);
    } else if (in_place) {
      std::memcpy(y, values, static_cast<size_t>(bytes));
    }
  }
  if (streamed) stream_fence();
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

// Note [Formulas around a function]: the parts as operators.
template <class Op>
struct BeforeInner : Op {
  template <class V, class... Parameters>
  ITERLAB_FN V operator()(V input, Parameters... parameters) const {
    return Op::before(input, parameters...);
  }
};
template <class Op>
struct AfterInner : Op {
  static constexpr int num_inputs = 2;
  template <class V, class... Parameters>
  ITERLAB_FN V operator()(V input, V inside, Parameters... parameters) const {
    return Op::after(input, inside, parameters...);
  }
};
template <class Op, class T>
void lanes_around_inner(int64_t count, char* const* data, const Number* numbers) {
  alignas(64) char inside[kVmlPiece * sizeof(T)];
  for (int64_t first = 0; first < count; first += kVmlPiece) {
    const auto offset = first * static_cast<int64_t>(sizeof(T));
    const int64_t piece = std::min(kVmlPiece, count - first);
    char* const before[] = {inside, data[1] + offset};
    char* const inner[] = {inside, inside};
    char* const after[] = {data[0] + offset, data[1] + offset, inside};
    lanes<BeforeInner<Op>, T>(piece, before, numbers);
    lane_loop<typename Op::Inner, T>(piece, inner, nullptr);
    lanes<AfterInner<Op>, T>(piece, after, numbers);
  }
}
#define ITERLAB_FORALL_AROUND_VML(_) _(Logit) _(Ndtr) _(Tanhshrink)

#define ITERLAB_SPECIALISE(Op, Name)                                                          \
  template <>                                                                                 \
  inline void lane_loop<ops::Op, float>(int64_t count, char* const* data, const Number* n) {  \
    vml_lanes<ops::Op, float>(&vms##Name, count, data, n);                                    \
  }                                                                                           \
  template <>                                                                                 \
  inline void lane_loop<ops::Op, double>(int64_t count, char* const* data, const Number* n) { \
    vml_lanes<ops::Op, double>(&vmd##Name, count, data, n);                                   \
  }
ITERLAB_FORALL_VML(ITERLAB_SPECIALISE)
#undef ITERLAB_SPECIALISE
#undef ITERLAB_FORALL_VML

#define ITERLAB_SPECIALISE(Op)                                                                \
  template <>                                                                                 \
  inline void lane_loop<ops::Op, float>(int64_t count, char* const* data, const Number* n) {  \
    lanes_around_inner<ops::Op, float>(count, data, n);                                       \
  }                                                                                           \
  template <>                                                                                 \
  inline void lane_loop<ops::Op, double>(int64_t count, char* const* data, const Number* n) { \
    lanes_around_inner<ops::Op, double>(count, data, n);                                      \
  }
ITERLAB_FORALL_AROUND_VML(ITERLAB_SPECIALISE)
#undef ITERLAB_SPECIALISE
#undef ITERLAB_FORALL_AROUND_VML

}  // namespace CPU_CAPABILITY
}  // namespace iterlab::cpu
