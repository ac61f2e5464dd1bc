// What ordered reductions do to collected states, whatever the elements were: the tree over lanes
// and blocks, and the projection.
#pragma once

#include "engine/cpu/reduce_vec.h"
#include "iterlab/reduce_formulas.h"

#include <algorithm>

namespace iterlab::cpu {
inline namespace CPU_CAPABILITY {

// 1 / n of the n-th element of a lane within a block.
inline constexpr int64_t kLaneElements = kBlock / kLanes;
constexpr std::array<double, kLaneElements> inverses() {
  std::array<double, kLaneElements> table{};
  for (size_t i = 0; i < table.size(); ++i) table[i] = 1.0 / static_cast<double>(i + 1);
  return table;
}
inline constexpr std::array<double, kLaneElements> kInverse = inverses();

// Elements of lane `lane` in a block of `count`.
constexpr int64_t lane_count(int64_t count, int64_t lane) {
  return count > lane ? (count - lane + kLanes - 1) / kLanes : 0;
}
// Elements of the lanes l, l + half, l + 2 * half, ... together: what lane l stands for once lanes
// were folded down to `half`.
constexpr int64_t folded_count(int64_t count, int64_t lane, int64_t half) {
  int64_t sum = 0;
  for (int64_t l = lane; l < kLanes; l += half) sum += lane_count(count, l);
  return sum;
}

template <class V>
formulas::Meeting<V> meeting(int64_t count, int64_t other) {
  if (other == 0) return {reducing::filled<V>(0), reducing::filled<V>(0)};
  const double a = static_cast<double>(count), b = static_cast<double>(other);
  return {reducing::filled<V>(b / (a + b)), reducing::filled<V>(a * (b / (a + b)))};
}

// Each lane's meeting at each of the four folds of a block.
template <class T>
struct FoldTable {
  T part[4][kLanes] = {}, product[4][kLanes] = {};

  explicit FoldTable(int64_t count) {
    int level = 0;
    for (int64_t half = kLanes / 2; half > 0; half /= 2, ++level) {
      for (int64_t l = 0; l < half; ++l) {
        const auto meet = meeting<Lane<T>>(folded_count(count, l, 2 * half),
                                           folded_count(count, l + half, 2 * half));
        part[level][l] = meet.part.value;
        product[level][l] = meet.product.value;
      }
    }
  }
};

template <class Formula, class V>
struct StateLoops {
  using T = typename V::value_type;
  using Access = VectorAccess<V>;
  using Meet = formulas::Meeting<V>;
  static constexpr int N = Formula::components;
  static constexpr int64_t W = Access::width;

  static void start(char* lanes, int64_t used, int64_t columns) {
    V state[N];
    Formula::start(state);
    for (int n = 0; n < N; ++n) {
      T value[W];
      Access::store(value, state[n]);
      T* const rows = reinterpret_cast<T*>(lanes) + n * kLanes * columns;
      std::fill(rows, rows + used * columns, value[0]);
    }
  }

  // Rows of components, `apart` and `other_apart` between them.
  ITERLAB_FN static void combine_rows(T* row, int64_t apart, const T* other, int64_t other_apart,
                                      int64_t count, const Meet& meet) {
    V a[N], b[N];
    int64_t c = 0;
    for (; c + W <= count; c += W) {
      for (int n = 0; n < N; ++n) {
        a[n] = Access::load(row + n * apart + c);
        b[n] = Access::load(other + n * other_apart + c);
      }
      Formula::combine(a, b, meet);
      for (int n = 0; n < N; ++n) Access::store(row + n * apart + c, a[n]);
    }
    if (const int64_t rest = count - c; rest > 0) {
      for (int n = 0; n < N; ++n) {
        a[n] = Access::load(row + n * apart + c, rest);
        b[n] = Access::load(other + n * other_apart + c, rest);
      }
      Formula::combine(a, b, meet);
      for (int n = 0; n < N; ++n) Access::store(row + n * apart + c, a[n], rest);
    }
  }

  static void fold(char* lanes, int64_t count, int64_t columns, char* row) {
    T* const x = reinterpret_cast<T*>(lanes);
    const int64_t apart = kLanes * columns;
    int64_t used = std::min(count, kLanes);
    for (int64_t half = kLanes / 2; half > 0; half /= 2) {
      if (Formula::kCounts) {
        for (int64_t l = 0; l + half < used; ++l) {
          combine_rows(x + l * columns, apart, x + (l + half) * columns, apart, columns,
                       meeting<V>(folded_count(count, l, 2 * half),
                                  folded_count(count, l + half, 2 * half)));
        }
      } else if (used > half) {
        combine_rows(x, apart, x + half * columns, apart, (used - half) * columns,
                     meeting<V>(0, 0));
      }
      used = std::min(used, half);
    }
    for (int n = 0; n < N; ++n)
      std::copy(x + n * apart, x + n * apart + columns, reinterpret_cast<T*>(row) + n * columns);
  }

  static void combine(char* row, const char* other, int64_t columns, int64_t count,
                      int64_t other_count) {
    combine_rows(reinterpret_cast<T*>(row), columns, reinterpret_cast<const T*>(other), columns,
                 columns, meeting<V>(count, Formula::kCounts ? other_count : 0));
  }

  template <class Op, int results>
  static void project(const char* row, int64_t columns, int64_t reduced, double number,
                      char* const* out) {
    const T* const x = reinterpret_cast<const T*>(row);
    for (int64_t c = 0; c < columns; c += W) {
      const int64_t some = std::min(W, columns - c);
      V total[N], result[results];
      for (int n = 0; n < N; ++n) total[n] = Access::load(x + n * columns + c, some);
      Op::project(total, static_cast<double>(reduced), number, result);
      for (int n = 0; n < results; ++n)
        Access::store(reinterpret_cast<T*>(out[n]) + c, result[n], some);
    }
  }
};

}  // namespace CPU_CAPABILITY
}  // namespace iterlab::cpu
