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

// What is smaller lies in the second-level cache, likely: exp of 512 KiB took 1.2 times as long
// with prefetches as without.
inline constexpr int64_t kPrefetchFromBytes = int64_t{1} << 20;

// Runs `functor`, a loop over lanes, for what MKL is not used for.
template <class Op, class T>
void run_vml(void (*function)(int, const T*, T*, int64_t), LanesFn functor, int64_t count,
             char* const* data, const Number* numbers) {
  using Bits = BitsOf<T>;
  constexpr int64_t kPiece = 2048;  // too small for MKL to share between threads of its own
  // VML_HA (below 1 ulp), VML_FTZDAZ_OFF (denormal numbers as they are), VML_ERRMODE_IGNORE.
  constexpr int64_t kMode = 0x2 | 0x140000 | 0x100;
  constexpr Bits kSafe = std::bit_cast<Bits>(T(0.5));  // lies in every domain
  const MklOnThisThread on_this_thread;
  // A thread's part of a result that Note [Streaming stores] is about.
  const int64_t bytes = count * int64_t{sizeof(T)};
  const bool streamed = data[0] != data[1] && bytes >= kStreamFromBytes / 4;
  const bool prefetches = bytes >= kPrefetchFromBytes;
  alignas(64) T values[kPiece], others[kPiece];
  for (int64_t first = 0; first < count; first += kPiece) {
    const auto offset = first * static_cast<int64_t>(sizeof(T));
    char *const x = data[1] + offset, *const y = data[0] + offset;
    const int64_t piece = std::min(kPiece, count - first);
    const auto bits_at = [&](int64_t i) { return load_element<Bits>(x, i); };
    const auto run = [&](const void* from, void* to) {
      function(static_cast<int>(piece), static_cast<const T*>(from), static_cast<T*>(to), kMode);
    };
    if (!any_outside<Op, T>(x, piece)) {
      // The memory would be idle meanwhile: Note [Prefetch].
      if (prefetches) {
        const int64_t next = std::min(kPiece, count - first - piece) * int64_t{sizeof(T)};
        for (int64_t b = 0; b < next; b += 64) __builtin_prefetch(x + sizeof(values) + b);
      }
      if (streamed) {
        run(x, values);
        stream_rows(reinterpret_cast<const char*>(values), y, 0, piece * int64_t{sizeof(T)}, 1);
      } else {
        run(x, y);
      }
      continue;
    }
    const auto is_outside = DomainBits<Op, T>::is_outside;
    char* const value_bytes = reinterpret_cast<char*>(values);
    char* const other_bytes = reinterpret_cast<char*>(others);
    for (int64_t i = 0; i < piece; ++i) {
      const Bits bits = bits_at(i);
      store_element(value_bytes, i, is_outside(bits) ? kSafe : bits);
    }
    run(values, values);
    char* const whole_piece[] = {other_bytes, x};
    functor(piece, whole_piece, numbers);
    for (int64_t i = 0; i < piece; ++i) {
      const Bits value = load_element<Bits>(value_bytes, i),
                 other = load_element<Bits>(other_bytes, i);
      store_element(y, i, is_outside(bits_at(i)) ? other : value);
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
  constexpr int64_t kPiece = 2048;
  alignas(64) char inside[kPiece * sizeof(T)];
  for (int64_t first = 0; first < count; first += kPiece) {
    const auto offset = first * static_cast<int64_t>(sizeof(T));
    const int64_t piece = std::min(kPiece, count - first);
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
