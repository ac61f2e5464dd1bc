// Reduction loops of max, min, argmax and argmin: the best element and its position, exact in any
// order.
#pragma once

#include "engine/cpu/reduce_vec.h"
#include "iterlab/reduce_formulas.h"

#include <algorithm>

namespace iterlab::cpu {
inline namespace CPU_CAPABILITY {

// The state of an output: the best value, and its position in the leaf or in all elements.
template <class Formula, class T>
struct PositionLoops {
  using Value = typename Formula::Value;
  // A bool is read as a byte: memory may hold more than 0 and 1.
  using Stored = std::conditional_t<std::is_same_v<T, bool>, uint8_t, T>;
  static constexpr int64_t kSearch = 1024;  // elements whose best is found before its position is
  static constexpr int64_t kRowsTogether = 4;

  static Stored element(Stored x) {
    if constexpr (std::is_same_v<T, bool>) return x != 0;
    return x;
  }
  static Stored worst() {
    Lane<Stored> state;
    Value::start(&state);
    if constexpr (std::is_same_v<T, bool>) return state.value != 0;
    return state.value;
  }

  // The best of `count` values. Vectors where they are needed to let NaN win.
  static Stored best_of(const Stored* x, int64_t count) {
    int64_t i = 0;
    Lane<Stored> best(worst());
    const Lane<Stored> zero(Stored(0));
    if constexpr (std::is_floating_point_v<Stored>) {
      using V = at::vec::Vectorized<Stored>;
      constexpr int64_t W = V::size();
      V some[4];
      for (V& v : some) v = V(best.value);
      for (; i + 4 * W <= count; i += 4 * W) {
        for (int64_t k = 0; k < 4; ++k) Value::add(&some[k], V::loadu(x + i + k * W), some[k], 0);
      }
      for (int64_t k = 1; k < 4; ++k) Value::add(&some[0], some[k], some[0], 0);
      Stored lanes[W];
      some[0].store(lanes);
      for (Stored lane : lanes) Value::add(&best, Lane<Stored>(lane), zero, 0);
    }
    for (; i < count; ++i) Value::add(&best, Lane<Stored>(element(x[i])), zero, 0);
    return best.value;
  }

  // The first position of `value`, which is there; of any NaN where it is one. Whole steps are
  // tested at once.
  static int64_t find(const Stored* x, int64_t count, Stored value) {
    constexpr int64_t kStep = 64;
    const bool nan = reducing::is_nan(value);
    int64_t i = 0;
    for (; i + kStep <= count; i += kStep) {
      bool hit = false;
      for (int64_t k = 0; k < kStep; ++k) {
        const Stored y = element(x[i + k]);
        hit |= nan ? reducing::is_nan(y) : y == value;
      }
      if (hit) break;
    }
    for (;; ++i) {
      const Stored y = element(x[i]);
      if (nan ? reducing::is_nan(y) : y == value) return i;
    }
  }

  static void inner(const char* data, int64_t row_stride, int64_t rows, int64_t count, double,
                    char* row, int64_t columns, int64_t column) {
    Stored* const values = values_of(row, columns) + column;
    int64_t* const positions = reinterpret_cast<int64_t*>(row) + column;
    for (int64_t r = 0; r < rows; ++r) {
      const Stored* const x = reinterpret_cast<const Stored*>(data + r * row_stride);
      Stored best = worst();
      int64_t position = 0;
      for (int64_t done = 0; done < count; done += kSearch) {
        const Stored found = best_of(x + done, std::min(kSearch, count - done));
        if (!Formula::better(found, best)) continue;
        best = found;
        position = done + find(x + done, std::min(kSearch, count - done), found);
        if (reducing::is_nan(best)) break;
      }
      values[r] = best;
      positions[r] = position;
    }
  }

  // Positions come first, for the sake of alignment.
  static int64_t* positions_of(char* row) { return reinterpret_cast<int64_t*>(row); }
  static Stored* values_of(char* row, int64_t columns) {
    return reinterpret_cast<Stored*>(row + columns * static_cast<int64_t>(sizeof(int64_t)));
  }

  static void start(char* lanes, int64_t, int64_t columns) {
    std::fill_n(values_of(lanes, columns), columns, worst());
    std::fill_n(positions_of(lanes), columns, int64_t{0});
  }

  template <int64_t together>
  static void add_rows(const char* __restrict data, int64_t row_stride, int64_t first,
                       int64_t columns, Stored* __restrict values, int64_t* __restrict positions) {
    for (int64_t c = 0; c < columns; ++c) {
      Stored best = values[c];
      int64_t position = positions[c];
      for (int64_t r = 0; r < together; ++r) {
        const Stored x = element(reinterpret_cast<const Stored*>(data + r * row_stride)[c]);
        const bool better = Formula::better(x, best);
        best = better ? x : best;
        position = better ? first + r : position;
      }
      values[c] = best;
      positions[c] = position;
    }
  }

  static void rows(const char* data, int64_t row_stride, int64_t first, int64_t count,
                   int64_t columns, double, char* lanes) {
    Stored* const values = values_of(lanes, columns);
    int64_t* const positions = positions_of(lanes);
    int64_t r = 0;
    for (; r + kRowsTogether <= count; r += kRowsTogether)
      add_rows<kRowsTogether>(data + r * row_stride, row_stride, first + r, columns, values,
                              positions);
    for (; r < count; ++r)
      add_rows<1>(data + r * row_stride, row_stride, first + r, columns, values, positions);
  }

  static void fold(char* lanes, int64_t, int64_t columns, char* row) {
    std::copy_n(lanes, columns * static_cast<int64_t>(sizeof(int64_t) + sizeof(T)), row);
  }

  // Positions of `other` are counted from its own first element.
  static void combine(char* row, const char* other, int64_t columns, int64_t count, int64_t) {
    Stored* const values = values_of(row, columns);
    int64_t* const positions = positions_of(row);
    const Stored* const other_values = values_of(const_cast<char*>(other), columns);
    const int64_t* const other_positions = positions_of(const_cast<char*>(other));
    for (int64_t c = 0; c < columns; ++c) {
      const bool better = Formula::better(other_values[c], values[c]);
      values[c] = better ? other_values[c] : values[c];
      positions[c] = better ? count + other_positions[c] : positions[c];
    }
  }

  // Values and positions, or positions alone.
  template <class Op, int results>
  static void project(const char* row, int64_t columns, int64_t, double, char* const* out) {
    const auto bytes = columns * static_cast<int64_t>(sizeof(int64_t));
    if constexpr (results == 2)
      std::copy_n(row + bytes, columns * static_cast<int64_t>(sizeof(T)), out[0]);
    std::copy_n(row, bytes, out[results - 1]);
  }
};

}  // namespace CPU_CAPABILITY
}  // namespace iterlab::cpu
