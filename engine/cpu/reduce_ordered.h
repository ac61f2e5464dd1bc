// Reduction loops whose order decides the bits: floating point sums, products, moments, norms.
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

// E: what elements are stored as. T: what they are collected in. A complex element of a real
// reduction goes through the formula's map.
template <class Formula, class E, class T>
struct OrderedLoops {
  static constexpr bool maps = is_complex_v<E> && !is_complex_v<T>;
  using V = std::conditional_t<maps, Lane<T>, ReduceVector<T>>;
  using Access = VectorAccess<V>;
  using Meet = formulas::Meeting<V>;
  static constexpr int N = Formula::components;
  static constexpr int64_t W = Access::width;
  static constexpr int64_t K = kLanes / W;
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

  // The lanes of a block, folded in registers.
  template <int64_t half>
  ITERLAB_FN static void fold_vectors(V (&lanes)[K][N], const Table& table, int level) {
    if constexpr (half >= W) {
      constexpr int64_t vectors = half / W;
      for (int64_t k = 0; k < vectors; ++k)
        Formula::combine(lanes[k], lanes[k + vectors], meet(table, level, k * W));
    } else {
      V upper[N];
      for (int n = 0; n < N; ++n) upper[n] = upper_lanes<half>(lanes[0][n]);
      Formula::combine(lanes[0], upper, meet(table, level, 0));
    }
    if constexpr (half > 1) fold_vectors<half / 2>(lanes, table, level + 1);
  }

  // A block of `count` <= kBlock contiguous elements; the result is in the first lane.
  ITERLAB_FN static void block(const E* x, int64_t count, double number, const Table& table,
                               V (&total)[N]) {
    V lanes[K][N];
    for (int64_t k = 0; k < K; ++k) Formula::start(lanes[k]);
    const int64_t whole = count / kLanes;
    for (int64_t i = 0; i < whole; ++i, x += kLanes) {
      const V inverse = nth(i);
      for (int64_t k = 0; k < K; ++k) Formula::add(lanes[k], load(x + k * W), inverse, number);
    }
    const int64_t rest = count % kLanes;
    const V inverse = nth(std::min(whole, kLaneElements - 1));
    for (int64_t k = 0; k * W < rest; ++k) {
      const int64_t some = std::min(W, rest - k * W);
      V joined[N];
      for (int n = 0; n < N; ++n) joined[n] = lanes[k][n];
      Formula::add(joined, load(x + k * W, some), inverse, number);
      for (int n = 0; n < N; ++n) lanes[k][n] = Access::merge(lanes[k][n], joined[n], some);
    }
    fold_vectors<kLanes / 2>(lanes, table, 0);
    for (int n = 0; n < N; ++n) total[n] = lanes[0][n];
  }

  // More than a block: the blocks combined as a binary counter carries.
  static void blocks(const E* x, int64_t count, double number, const Table& whole,
                     const Table& last, V (&total)[N]) {
    V levels[8][N];
    int64_t pushed = 0;
    for (int64_t done = 0; done < count; done += kBlock, ++pushed) {
      const int64_t size = std::min(kBlock, count - done);
      block(x + done, size, number, size == kBlock ? whole : last, total);
      int level = 0;
      for (; (pushed >> level & 1) != 0; ++level) {
        Formula::combine(levels[level], total,
                         meeting<V>(kBlock << level, tail_of(pushed, level, size)));
        for (int n = 0; n < N; ++n) total[n] = levels[level][n];
      }
      for (int n = 0; n < N; ++n) levels[level][n] = total[n];
    }
    int64_t behind = 0;  // elements that `total` stands for
    for (int level = 0; level < 8; ++level) {
      if ((pushed >> level & 1) == 0) continue;
      const int64_t own = level_count(pushed, level, count);
      if (behind != 0) {
        Formula::combine(levels[level], total, meeting<V>(own, behind));
      }
      for (int n = 0; n < N; ++n) total[n] = levels[level][n];
      behind += own;
    }
  }

  // Elements of what is carried into `level` when block number `pushed`, of `size` elements, is
  // pushed: 2^level blocks of which the last may be short.
  static int64_t tail_of(int64_t, int level, int64_t size) {
    return ((int64_t{1} << level) - 1) * kBlock + size;
  }
  // Elements at `level` after all were pushed: the lowest level that is there has the short block.
  static int64_t level_count(int64_t pushed, int level, int64_t count) {
    const int64_t blocks = int64_t{1} << level;
    const bool lowest = (pushed & (blocks - 1)) == 0;
    const int64_t missing = lowest ? pushed * kBlock - count : 0;
    return blocks * kBlock - missing;
  }

  static void inner(const char* data, int64_t row_stride, int64_t rows, int64_t count,
                    double number, char* row, int64_t columns, int64_t column) {
    T* const out = reinterpret_cast<T*>(row) + column;
    const Table whole(kBlock);
    const Table last(count % kBlock == 0 ? kBlock : count % kBlock);
    for (int64_t r = 0; r < rows; ++r) {
      const E* const x = reinterpret_cast<const E*>(data + r * row_stride);
      V total[N];
      if (count <= kBlock) {
        block(x, count, number, last, total);
      } else {
        blocks(x, count, number, whole, last, total);
      }
      for (int n = 0; n < N; ++n) Access::store(out + n * columns + r, total[n], 1);
    }
  }

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

  // One element of each of `count` accumulators, `apart` between components.
  ITERLAB_FN static void accumulate(const E* x, int64_t count, T* state, int64_t apart,
                                    const V& inverse, double number) {
    V s[N];
    int64_t c = 0;
    for (; c + W <= count; c += W) {
      for (int n = 0; n < N; ++n) s[n] = Access::load(state + n * apart + c);
      Formula::add(s, load(x + c), inverse, number);
      for (int n = 0; n < N; ++n) Access::store(state + n * apart + c, s[n]);
    }
    if (const int64_t rest = count - c; rest > 0) {
      for (int n = 0; n < N; ++n) s[n] = Access::load(state + n * apart + c, rest);
      Formula::add(s, load(x + c, rest), inverse, number);
      for (int n = 0; n < N; ++n) Access::store(state + n * apart + c, s[n], rest);
    }
  }

  // Dense rows are taken kLanes at a time: they lie as the accumulators do, so that a few columns
  // make whole vectors.
  static void rows(const char* data, int64_t row_stride, int64_t first, int64_t count,
                   int64_t columns, double number, char* lanes) {
    const bool dense = row_stride == columns * static_cast<int64_t>(sizeof(E));
    int64_t r = 0;
    while (r < count) {
      const int64_t lane = (first + r) % kLanes;
      const int64_t together = dense ? std::min(kLanes - lane, count - r) : 1;
      accumulate(reinterpret_cast<const E*>(data + r * row_stride), together * columns,
                 reinterpret_cast<T*>(lanes) + lane * columns, kLanes * columns,
                 nth((first + r) / kLanes), number);
      r += together;
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
