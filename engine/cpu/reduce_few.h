// Ordered reductions of few elements: outputs of no more elements than there are lanes, and short
// rows that follow one another.
#pragma once

#include "engine/cpu/deinterleave.h"
#include "engine/cpu/reduce_state.h"
#include "iterlab/reduce_plan.h"

#include <algorithm>
#include <bit>

namespace iterlab::cpu {
inline namespace CPU_CAPABILITY {

// A complex element of a real reduction goes through the formula's map, one by one.
template <class E, class T>
inline constexpr bool maps_elements = is_complex_v<E> && !is_complex_v<T>;
template <class E, class T>
using OrderedVector = std::conditional_t<maps_elements<E, T>, Lane<T>, ReduceVector<T>>;

// E: what elements are stored as. T: what they are collected in.
template <class Formula, class E, class T>
struct OrderedElements {
  static constexpr bool maps = maps_elements<E, T>;
  using V = OrderedVector<E, T>;
  using Access = VectorAccess<V>;
  using Meet = formulas::Meeting<V>;
  static constexpr int N = Formula::components;
  static constexpr int64_t W = Access::width;
  struct NoTable {
    explicit NoTable(int64_t) {}
  };
  using Table = std::conditional_t<Formula::kCounts, FoldTable<T>, NoTable>;

  static V load(const E* data) {
    if constexpr (maps) {
      return Formula::template map<T>(*data);
    } else {
      return load_elements<V>(data);
    }
  }
  static V load(const E* data, int64_t count) {
    if constexpr (maps) {
      return load(data);
    } else {
      return load_elements<V>(data, count);
    }
  }
  static V nth(int64_t i) {
    if constexpr (Formula::kCounts) {
      return reducing::filled<V>(kInverse[static_cast<size_t>(i)]);
    } else {
      return reducing::filled<V>(0);
    }
  }
  static Meet meet(const Table& table, int level, int64_t lane) {
    if constexpr (Formula::kCounts) {
      return {Access::load(table.part[level] + lane), Access::load(table.product[level] + lane)};
    } else {
      return {reducing::filled<V>(0), reducing::filled<V>(0)};
    }
  }
  static Meet lane_meeting(const Table& table, int level, int64_t lane) {
    if constexpr (Formula::kCounts) {
      return {V(table.part[level][lane]), V(table.product[level][lane])};
    } else {
      return {reducing::filled<V>(0), reducing::filled<V>(0)};
    }
  }
};

template <class Formula, class E, class T>
struct FewLoops : OrderedElements<Formula, E, T> {
  using Elements = OrderedElements<Formula, E, T>;
  using Elements::N, Elements::W, Elements::load, Elements::nth, Elements::lane_meeting;
  using typename Elements::V, typename Elements::Access, typename Elements::Table;

  // At most kLanes rows: one for each lane, folded at once. Lanes are plain memory, which is not
  // zeroed as an array of vectors would be.
  template <bool whole>
  ITERLAB_FN static void few_rows_at(const char* data, int64_t row_stride, int64_t count,
                                     int64_t some, double number, const Table& table, T* out,
                                     int64_t apart) {
    alignas(64) T lanes[kLanes][N][W];
    const auto load_lane = [&](int64_t l, V(&state)[N]) {
      for (int n = 0; n < N; ++n) state[n] = Access::load(lanes[l][n]);
    };
    const auto store_lane = [&](int64_t l, const V(&state)[N]) {
      for (int n = 0; n < N; ++n) Access::store(lanes[l][n], state[n]);
    };
    const V one = nth(0);
    for (int64_t l = 0; l < count; ++l) {
      const E* const x = reinterpret_cast<const E*>(data + l * row_stride);
      V state[N];
      Formula::start(state);
      Formula::add(state, whole ? load(x) : load(x, some), one, number);
      store_lane(l, state);
    }
    int64_t used = count;
    int level = 0;
    for (int64_t half = kLanes / 2; half > 0; half /= 2, ++level) {
      for (int64_t l = 0; l + half < used; ++l) {
        V state[N], other[N];
        load_lane(l, state);
        load_lane(l + half, other);
        Formula::combine(state, other, lane_meeting(table, level, l));
        store_lane(l, state);
      }
      used = std::min(used, half);
    }
    V total[N];
    load_lane(0, total);
    for (int n = 0; n < N; ++n) {
      if constexpr (whole) {
        Access::store(out + n * apart, total[n]);
      } else {
        Access::store(out + n * apart, total[n], some);
      }
    }
  }
  // The same for a number of rows that is known, in registers: a vector of each.
  template <int kCount>
  ITERLAB_FN static void fold_few(V (&lanes)[kCount][N], const Table& table) {
    int used = kCount, level = 0;
#pragma GCC unroll 8
    for (int half = static_cast<int>(kLanes) / 2; half > 0; half /= 2, ++level) {
#pragma GCC unroll 8
      for (int l = 0; l + half < used; ++l) {
        Formula::combine(lanes[l], lanes[l + half], lane_meeting(table, level, l));
      }
      used = std::min(used, half);
    }
  }
  ITERLAB_FN static void collect(const V& x, V (&lane)[N], double number) {
    Formula::start(lane);
    Formula::add(lane, x, nth(0), number);
  }
  // For formulas of one component. Returns the columns done.
  template <int kCount>
  static int64_t few_whole_columns(const char* data, int64_t row_stride, int64_t columns,
                                   double number, const Table& table, T* out) {
    int64_t c = 0;
    for (; c + W <= columns; c += W) {
      V lanes[kCount][N];
#pragma GCC unroll 8
      for (int l = 0; l < kCount; ++l)
        collect(load(reinterpret_cast<const E*>(data + l * row_stride) + c), lanes[l], number);
      fold_few(lanes, table);
      Access::store(out + c, lanes[0][0]);
    }
    return c;
  }

  // kRow vectors of W rows, halved down to one vector of W results.
  template <int kRow, int level>
  ITERLAB_FN static void fold_halves(V (&rows)[kRow][N], const Table& table, V (&total)[N]) {
    if constexpr (kRow == 1) {
      for (int n = 0; n < N; ++n) total[n] = rows[0][n];
    } else {
      V halved[kRow / 2][N];
#pragma GCC unroll 8
      for (int pair = 0; pair < kRow / 2; ++pair) {
        V upper[N];
        for (int n = 0; n < N; ++n) {
          const V &a = rows[2 * pair][n], &b = rows[2 * pair + 1][n];
          halved[pair][n] = shuffled<HalfRow<kRow, 0>>(a, b);
          upper[n] = shuffled<HalfRow<kRow, 1>>(a, b);
        }
        Formula::combine(halved[pair], upper, lane_meeting(table, level, 0));
      }
      fold_halves<kRow / 2, level + 1>(halved, table, total);
    }
  }

  // W short rows of kCount elements that follow one another. Where kCount is a power of two, halves
  // of all rows meet; else a vector is made of each row's first elements, of the second, ...
  template <int kCount>
  ITERLAB_FN static void fold_rows(const E* x, double number, const Table& table, V (&total)[N]) {
    constexpr bool halves = W > 1 && std::has_single_bit(unsigned{kCount});
    V lanes[kCount][N];
    if constexpr (halves) {
#pragma GCC unroll 8
      for (int l = 0; l < kCount; ++l) collect(load(x + l * W), lanes[l], number);
      constexpr int level = std::countr_zero(static_cast<unsigned>(kLanes / kCount));
      fold_halves<kCount, level>(lanes, table, total);
    } else {
      V elements[kCount];
      for (int l = 0; l < kCount; ++l) elements[l] = load(x + l * W);
      deinterleave(elements);
#pragma GCC unroll 8
      for (int l = 0; l < kCount; ++l) collect(elements[l], lanes[l], number);
      fold_few(lanes, table);
      for (int n = 0; n < N; ++n) total[n] = lanes[0][n];
    }
  }
  template <int kCount>
  static void dense_rows_of(const char* data, int64_t columns, double number, T* out) {
    const E* const x = reinterpret_cast<const E*>(data);
    const Table table(kCount);
    V total[N];
    int64_t c = 0;
    for (; c + W <= columns; c += W) {
      fold_rows<kCount>(x + c * kCount, number, table, total);
      for (int n = 0; n < N; ++n) Access::store(out + n * columns + c, total[n]);
    }
    if (c == columns) return;
    E padded[kCount * W] = {};
    std::copy(x + c * kCount, x + columns * kCount, padded);
    fold_rows<kCount>(padded, number, table, total);
    for (int n = 0; n < N; ++n) Access::store(out + n * columns + c, total[n], columns - c);
  }
  ITERLAB_FN static void rows_at(const char* data, int64_t row_stride, int64_t count,
                                 int64_t columns, double number, const Table& table, T* out,
                                 int64_t apart) {
    constexpr auto size = static_cast<int64_t>(sizeof(E));
    int64_t c = 0;
    if constexpr (N == 1 && !Formula::kHeavy) {
      if (count == 2) c = few_whole_columns<2>(data, row_stride, columns, number, table, out);
      if (count == 3) c = few_whole_columns<3>(data, row_stride, columns, number, table, out);
      if (count == 4) c = few_whole_columns<4>(data, row_stride, columns, number, table, out);
      if (count == 8) c = few_whole_columns<8>(data, row_stride, columns, number, table, out);
    }
    for (; c + W <= columns; c += W)
      few_rows_at<true>(data + c * size, row_stride, count, W, number, table, out + c, apart);
    if (c < columns) {
      few_rows_at<false>(data + c * size, row_stride, count, columns - c, number, table, out + c,
                         apart);
    }
  }
  static void few_rows(const char* data, int64_t row_stride, int64_t count, int64_t columns,
                       double number, char* row) {
    rows_at(data, row_stride, count, columns, number, Table(count), reinterpret_cast<T*>(row),
            columns);
  }

  // Each count has a loop of its own, but for vectors whose shuffles are no instructions: their
  // columns are gathered into rows first.
#if defined(CPU_CAPABILITY_AVX512) || defined(CPU_CAPABILITY_AVX2)
  static constexpr bool kGathers = false;
#else
  static constexpr bool kGathers = W > 1;
#endif
  static void dense_rows(const char* data, int64_t count, int64_t columns, double number,
                         char* row) {
    T* const out = reinterpret_cast<T*>(row);
    if constexpr (kGathers) {
      constexpr int64_t kColumns = 128;
      const E* x = reinterpret_cast<const E*>(data);
      const Table table(count);
      E rows[kMaxDense][kColumns];
      for (int64_t c = 0; c < columns; c += kColumns) {
        const int64_t some = std::min(kColumns, columns - c);
        for (int64_t l = 0; l < count; ++l) {
          for (int64_t i = 0; i < some; ++i) rows[l][i] = x[(c + i) * count + l];
        }
        rows_at(reinterpret_cast<const char*>(rows), sizeof(rows[0]), count, some, number, table,
                out + c, columns);
      }
    } else {
      using Loop = void (*)(const char*, int64_t, double, T*);
      constexpr Loop loops[] = {&dense_rows_of<2>, &dense_rows_of<3>, &dense_rows_of<4>,
                                &dense_rows_of<5>, &dense_rows_of<6>, &dense_rows_of<7>,
                                &dense_rows_of<8>};
      static_assert(kMinDense == 2 && kMaxDense == 8);
      loops[count - kMinDense](data, columns, number, out);
    }
  }
};

}  // namespace CPU_CAPABILITY
}  // namespace iterlab::cpu
