// The formulas of reductions: how an element joins what was collected so far, and how two
// collections are combined. Operators share them and differ in their projection.
#pragma once

#include "iterlab/reduce.h"
#include "iterlab/reduce_math.h"

namespace iterlab::formulas {

// Note [Formulas]
// A formula collects `components` values of the accumulate type for each output:
//   start(state)                 nothing collected
//   add(state, x, nth, number)   one more element, already of the accumulate type
//   combine(state, other, meet)  two collections, `state` of earlier elements
// V is a SIMD vector, a Lane, or a CUDA scalar. `nth` is 1 / k for the k-th element of a lane, and
// `meet` the shares of two collections; they are there for formulas with kCounts only. `number` is
// the operator's own (the order of a norm). A formula with map<T>(x) sees elements of every dtype
// through it; one with Integral collects integers by that formula instead.

// How the `b` elements of one collection meet the `a` of another.
template <class V>
struct Meeting {
  V part;     // b / (a + b)
  V product;  // a * b / (a + b)
};

struct Formula {
  static constexpr int components = 1;
  static constexpr bool kCounts = false;
  // The type in which a block of E is collected where that is exact: narrow, for SIMD.
  template <class E, class T>
  using Block = T;
  static constexpr bool stops_early = false;
  // Waits for arithmetic and not for memory: one block at a time is enough.
  static constexpr bool kHeavy = false;
  // Looks at bits only: integers of one width share their loops.
  static constexpr bool kSignless = false;
  // The type in which a few rows of E are collected, for one update of the accumulators.
  template <class E, class T>
  using Rows = T;
};

struct Sum : Formula {
  template <class E, class T>
  using Block = std::conditional_t<(sizeof(E) < 4), int32_t, T>;
  template <class E, class T>
  using Rows = std::conditional_t<sizeof(E) == 1, int16_t, Block<E, T>>;
  template <class V>
  ITERLAB_FN static void start(V* state) {
    state[0] = V(typename V::value_type(0));
  }
  template <class V>
  ITERLAB_FN static void add(V* state, const V& x, const V&, double) {
    state[0] = state[0] + x;
  }
  template <class V>
  ITERLAB_FN static void combine(V* state, const V* other, const Meeting<V>&) {
    state[0] = state[0] + other[0];
  }
};

struct NanSum : Sum {
  using Integral = Sum;
  template <class V>
  ITERLAB_FN static void add(V* state, const V& x, const V&, double) {
    state[0] = state[0] + reducing::zero_if_nan(x);
  }
};

// Sum and number of the elements that are not NaN.
struct NanMean : Formula {
  static constexpr int components = 2;
  template <class V>
  ITERLAB_FN static void start(V* state) {
    state[0] = state[1] = V(typename V::value_type(0));
  }
  template <class V>
  ITERLAB_FN static void add(V* state, const V& x, const V&, double) {
    state[0] = state[0] + reducing::zero_if_nan(x);
    state[1] = state[1] + reducing::is_number(x);
  }
  template <class V>
  ITERLAB_FN static void combine(V* state, const V* other, const Meeting<V>&) {
    state[0] = state[0] + other[0];
    state[1] = state[1] + other[1];
  }
};

struct Product : Formula {
  template <class V>
  ITERLAB_FN static void start(V* state) {
    state[0] = V(typename V::value_type(1));
  }
  template <class V>
  ITERLAB_FN static void add(V* state, const V& x, const V&, double) {
    state[0] = state[0] * x;
  }
  template <class V>
  ITERLAB_FN static void combine(V* state, const V* other, const Meeting<V>&) {
    state[0] = state[0] * other[0];
  }
};

// Counts, as int64: exact.
struct CountNonzero : Sum {
  static constexpr bool kSignless = true;
  template <class E, class T>
  using Block = std::conditional_t<sizeof(E) <= 4, int32_t, int64_t>;
  template <class E, class T>
  using Rows = std::conditional_t<sizeof(E) == 1, int16_t, Block<E, T>>;
  template <class T, class E>
  ITERLAB_FN static T map(E x) {
    return x != E(0) ? T(1) : T(0);
  }
};

struct Maximum : Formula {
  template <class V>
  ITERLAB_FN static void start(V* state) {
    state[0] = V(reducing::lowest<typename V::value_type>());
  }
  template <class V>
  ITERLAB_FN static void add(V* state, const V& x, const V&, double) {
    state[0] = reducing::maximum(state[0], x);
  }
  template <class V>
  ITERLAB_FN static void combine(V* state, const V* other, const Meeting<V>&) {
    state[0] = reducing::maximum(state[0], other[0]);
  }
};

struct Minimum : Formula {
  template <class V>
  ITERLAB_FN static void start(V* state) {
    state[0] = V(reducing::highest<typename V::value_type>());
  }
  template <class V>
  ITERLAB_FN static void add(V* state, const V& x, const V&, double) {
    state[0] = reducing::minimum(state[0], x);
  }
  template <class V>
  ITERLAB_FN static void combine(V* state, const V* other, const Meeting<V>&) {
    state[0] = reducing::minimum(state[0], other[0]);
  }
};

// Two formulas of one component each, side by side.
template <class First, class Second, class Base = Formula>
struct Both : Base {
  static constexpr int components = 2;
  static constexpr bool stops_early = false;
  template <class V>
  ITERLAB_FN static void start(V* state) {
    First::start(state);
    Second::start(state + 1);
  }
  template <class V>
  ITERLAB_FN static void add(V* state, const V& x, const V& nth, double number) {
    First::add(state, x, nth, number);
    Second::add(state + 1, x, nth, number);
  }
  template <class V>
  ITERLAB_FN static void combine(V* state, const V* other, const Meeting<V>& meet) {
    First::combine(state, other, meet);
    Second::combine(state + 1, other + 1, meet);
  }
};

struct MinimumAndMaximum : Both<Minimum, Maximum> {};

// The unsigned type of an element's width.
template <class E>
using Bits =
    std::conditional_t<sizeof(E) == 1, uint8_t,
                       std::conditional_t<sizeof(E) == 2, uint16_t,
                                          std::conditional_t<sizeof(E) == 4, uint32_t, uint64_t>>>;

struct BitwiseOr : Formula {
  static constexpr bool kSignless = true;
  template <class V>
  ITERLAB_FN static void start(V* state) {
    state[0] = V(typename V::value_type(0));
  }
  template <class V>
  ITERLAB_FN static void add(V* state, const V& x, const V&, double) {
    using T = typename V::value_type;
    state[0] = V(static_cast<T>(state[0].value | x.value));
  }
  template <class V>
  ITERLAB_FN static void combine(V* state, const V* other, const Meeting<V>&) {
    add(state, other[0], V(typename V::value_type(0)), 0);
  }
};

struct BitwiseAnd : Formula {
  static constexpr bool kSignless = true;
  template <class V>
  ITERLAB_FN static void start(V* state) {
    using T = typename V::value_type;
    if constexpr (std::is_same_v<T, bool>) {
      state[0] = V(true);
    } else {
      state[0] = V(static_cast<T>(~T(0)));
    }
  }
  template <class V>
  ITERLAB_FN static void add(V* state, const V& x, const V&, double) {
    using T = typename V::value_type;
    state[0] = V(static_cast<T>(state[0].value & x.value));
  }
  template <class V>
  ITERLAB_FN static void combine(V* state, const V* other, const Meeting<V>&) {
    add(state, other[0], V(typename V::value_type(0)), 0);
  }
};

struct BitwiseXor : Formula {
  static constexpr bool kSignless = true;
  template <class V>
  ITERLAB_FN static void start(V* state) {
    state[0] = V(typename V::value_type(0));
  }
  template <class V>
  ITERLAB_FN static void add(V* state, const V& x, const V&, double) {
    using T = typename V::value_type;
    state[0] = V(static_cast<T>(state[0].value ^ x.value));
  }
  template <class V>
  ITERLAB_FN static void combine(V* state, const V* other, const Meeting<V>&) {
    add(state, other[0], V(typename V::value_type(0)), 0);
  }
};

// Truth. A block of integers is collected as it is, the bitwise or and the smallest of its
// elements: zero exactly where the answer is no.
struct Truth : Formula {
  static constexpr bool kSignless = true;
  static constexpr bool stops_early = true;
  template <class E, class T>
  using Block = Bits<E>;
  template <class E, class T>
  using Rows = Bits<E>;
  template <class T, class E>
  ITERLAB_FN static T map(E x) {
    if constexpr (std::is_integral_v<E>) {
      return static_cast<T>(x);
    } else {
      return x != E(0) ? T(1) : T(0);
    }
  }
  template <class B>
  ITERLAB_FN static uint8_t narrow(B block) {
    return block != 0;
  }
};

struct Any : Truth {
  template <class V>
  ITERLAB_FN static void start(V* state) {
    BitwiseOr::start(state);
  }
  template <class V>
  ITERLAB_FN static void add(V* state, const V& x, const V& nth, double number) {
    BitwiseOr::add(state, x, nth, number);
  }
  template <class V>
  ITERLAB_FN static void combine(V* state, const V* other, const Meeting<V>& meet) {
    BitwiseOr::combine(state, other, meet);
  }
  static bool is_final(uint8_t truth) { return truth != 0; }
};

struct All : Truth {
  template <class V>
  ITERLAB_FN static void start(V* state) {
    state[0] = V(typename V::value_type(1));
  }
  template <class V>
  ITERLAB_FN static void add(V* state, const V& x, const V&, double) {
    state[0] = reducing::minimum(state[0], x);
  }
  template <class V>
  ITERLAB_FN static void combine(V* state, const V* other, const Meeting<V>&) {
    state[0] = reducing::minimum(state[0], other[0]);
  }
  static bool is_final(uint8_t truth) { return truth == 0; }
};

// Whether an odd number of truth values is true.
struct Parity : BitwiseXor {
  template <class T, class E>
  ITERLAB_FN static T map(E x) {
    return x != E(0) ? T(1) : T(0);
  }
};

// The smallest and the largest of truth values.
struct AllAndAny : Both<All, Any, Truth> {};

// Mean, and sum of squared distances from it: Welford's update within a lane, Chan's formula where
// collections meet (Chan, Golub, LeVeque 1979).
struct Moments : Formula {
  static constexpr int components = 2;
  static constexpr bool kCounts = true;
  template <class V>
  ITERLAB_FN static void start(V* state) {
    state[0] = state[1] = V(typename V::value_type(0));
  }
  template <class V>
  ITERLAB_FN static void add(V* state, const V& x, const V& nth, double) {
    const V before = reducing::minus(x, state[0]);
    state[0] = state[0] + before * nth;
    state[1] = reducing::fma(before, reducing::minus(x, state[0]), state[1]);
  }
  template <class V>
  ITERLAB_FN static void combine(V* state, const V* other, const Meeting<V>& meet) {
    const V apart = reducing::minus(other[0], state[0]);
    state[0] = state[0] + reducing::weighted(apart, meet.part);
    state[1] = state[1] + other[1] + reducing::weighted(reducing::square(apart), meet.product);
  }
};

// A reference m, and the sum of exp(x - m). m is an element, and the largest by kAhead at most: an
// element that is not farther above it is added with one exponential, and m need not follow. Of
// complex numbers, m is the largest real part.
struct LogSumExp : Formula {
  static constexpr int components = 2;
  static constexpr double kAhead = 8;
  template <class V>
  ITERLAB_FN static void start(V* state) {
    state[0] = reducing::filled<V>(-std::numeric_limits<double>::infinity());
    state[1] = V(typename V::value_type(0));
  }
  template <class V>
  ITERLAB_FN static void add(V* state, const V& x, const V&, double) {
    const V one(typename V::value_type(1));
    if constexpr (is_complex_v<typename V::value_type>) {
      const V other[2] = {reducing::real(x), reducing::turn(x)};
      combine(state, other, {one, one});
    } else {
      const V above = reducing::minus(x, state[0]), ahead = reducing::filled<V>(kAhead);
      const V sum = state[1] + reducing::fast_exp(above);
      if (reducing::all_at_most(above, ahead)) {
        state[1] = sum;
        return;
      }
      // Infinities and NaN come here too, and the lanes beside them keep their bits.
      V moved[2] = {state[0], state[1]};
      const V other[2] = {x, one};
      combine(moved, other, {one, one});
      state[0] = reducing::select_at_most(above, ahead, state[0], moved[0]);
      state[1] = reducing::select_at_most(above, ahead, sum, moved[1]);
    }
  }
  template <class V>
  ITERLAB_FN static void combine(V* state, const V* other, const Meeting<V>&) {
    const V zero(typename V::value_type(0));
    const V above = reducing::distance(other[0], state[0]);
    const V scale = reducing::fast_exp(reducing::minus(zero, reducing::abs(above)));
    state[1] = reducing::select_at_most(above, zero, state[1] + other[1] * scale,
                                        state[1] * scale + other[1]);
    state[0] = reducing::maximum(state[0], other[0]);  // NaN stays here
  }
};

// Sums of |x|^p; a complex element arrives as its absolute value.
struct AbsoluteMap {
  template <class T, class E>
  ITERLAB_FN static T map(E x) {
    return std::hypot(x.real(), x.imag());
  }
};
struct CountNorm : Sum, AbsoluteMap {
  template <class V>
  ITERLAB_FN static void add(V* state, const V& x, const V&, double) {
    state[0] = state[0] + reducing::is_nonzero(x);
  }
};
struct SumAbsolute : Sum, AbsoluteMap {
  template <class V>
  ITERLAB_FN static void add(V* state, const V& x, const V&, double) {
    state[0] = state[0] + reducing::abs(x);
  }
};
struct SumSquares : Sum, AbsoluteMap {
  template <class V>
  ITERLAB_FN static void add(V* state, const V& x, const V&, double) {
    state[0] = reducing::fma(x, x, state[0]);
  }
};
struct SumPowers : Sum, AbsoluteMap {
  static constexpr bool kHeavy = true;
  template <class V>
  ITERLAB_FN static void add(V* state, const V& x, const V&, double order) {
    state[0] = state[0] + reducing::pow(reducing::abs(x), reducing::filled<V>(order));
  }
};
struct MaximumAbsolute : Maximum, AbsoluteMap {
  template <class V>
  ITERLAB_FN static void add(V* state, const V& x, const V&, double) {
    state[0] = reducing::maximum(state[0], reducing::abs(x));
  }
};
struct MinimumAbsolute : Minimum, AbsoluteMap {
  template <class V>
  ITERLAB_FN static void add(V* state, const V& x, const V&, double) {
    state[0] = reducing::minimum(state[0], reducing::abs(x));
  }
};

// The best element and its position; the first of equals, a NaN before all. Its loops are their own
// (positions are integers): see the loops of positions.
struct PositionOfMaximum {
  static constexpr bool kPosition = true;
  using Value = Maximum;
  template <class T>
  ITERLAB_FN static bool better(T x, T best) {
    return !(x <= best) & !reducing::is_nan(best);
  }
  template <class Values>  // the same for vectors of the compiler
  ITERLAB_FN static auto better_lanes(Values x, Values best) {
    return ~(x <= best) & (best == best);
  }
};
struct PositionOfMinimum {
  static constexpr bool kPosition = true;
  using Value = Minimum;
  template <class T>
  ITERLAB_FN static bool better(T x, T best) {
    return !(x >= best) & !reducing::is_nan(best);
  }
  template <class Values>  // the same for vectors of the compiler
  ITERLAB_FN static auto better_lanes(Values x, Values best) {
    return ~(x >= best) & (best == best);
  }
};

// What formula F is for elements that are collected in T.
template <class F, class T>
struct ForCollected {
  using Type = F;
};
template <class F, class T>
  requires(std::is_integral_v<T> && requires { typename F::Integral; })
struct ForCollected<F, T> {
  using Type = typename F::Integral;
};
template <class F, class T>
using FormulaOf = typename ForCollected<F, T>::Type;

}  // namespace iterlab::formulas

namespace iterlab {

// The C++ type of a compute dtype.
template <DType dtype>
struct TypeOf;
#define ITERLAB_TYPE_OF(type, name, text) \
  template <>                             \
  struct TypeOf<DType::name> {            \
    using Type = type;                    \
  };
ITERLAB_FORALL_COMPUTE_TYPES(ITERLAB_TYPE_OF)
#undef ITERLAB_TYPE_OF

// What operator Op collects elements of type E in.
template <class Op, class E>
using AccumulateType = typename TypeOf<accumulate_dtype(Op::facts.accumulate, dtype_of<E>)>::Type;

}  // namespace iterlab
