// Reduction loops of max, min, argmax and argmin: the best element and its position, exact in any
// order.
#pragma once

#include "engine/cpu/reduce_vec.h"
#include "iterlab/reduce_formulas.h"

#include <algorithm>

namespace iterlab::cpu {
inline namespace CPU_CAPABILITY {

#if defined(CPU_CAPABILITY_AVX512)
inline constexpr int kVectorBytes = 64;
#elif defined(CPU_CAPABILITY_AVX2)
inline constexpr int kVectorBytes = 32;
#else
inline constexpr int kVectorBytes = 16;
#endif

// The state of an output: the best value, and its position in the leaf or in all elements.
template <class Formula, class T>
struct PositionLoops {
  using Value = typename Formula::Value;
  // A bool is read as a byte: memory may hold more than 0 and 1.
  using Stored = std::conditional_t<std::is_same_v<T, bool>, uint8_t, T>;
  static constexpr int64_t kSearch = 1024;  // elements whose best is found before its position is
  static constexpr int64_t kRowsTogether = 8;

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
      if (count >= W) {
        V some[4];
        for (V& v : some) v = V(best.value);
        for (; i + 4 * W <= count; i += 4 * W) {
#pragma GCC unroll 4
          for (int64_t k = 0; k < 4; ++k) Value::add(&some[k], V::loadu(x + i + k * W), some[k], 0);
        }
        for (; i + W <= count; i += W) Value::add(&some[0], V::loadu(x + i), some[0], 0);
        // The last vector overlaps what was read: the extreme stays the same.
        Value::add(&some[1], V::loadu(x + count - W), some[0], 0);
        for (int64_t k = 1; k < 4; ++k) Value::add(&some[0], some[k], some[0], 0);
        best = fold<W / 2>(some[0]);
        i = count;
      }
    }
    for (; i < count; ++i) Value::add(&best, Lane<Stored>(element(x[i])), zero, 0);
    return best.value;
  }
  template <int64_t half, class V>
  static Stored fold(V v) {
    Value::add(&v, upper_lanes<half>(v), v, 0);
    if constexpr (half > 1) {
      return fold<half / 2>(v);
    } else {
      Stored lanes[V::size()];
      v.store(lanes);
      return lanes[0];
    }
  }

  // The first position of `value`, which is there; of any NaN where it is one. Whole steps are
  // tested at once, in integers of the elements' width, which compilers vectorise.
  static int64_t find(const Stored* x, int64_t count, Stored value) {
    constexpr int64_t kStep = 64;
    using Hit = formulas::Bits<Stored>;
    int64_t i = 0;
    if (reducing::is_nan(value)) {
      while (!reducing::is_nan(x[i])) ++i;
      return i;
    }
    for (; i + kStep <= count; i += kStep) {
      Hit hit = 0;
      for (int64_t k = 0; k < kStep; ++k)
        hit = static_cast<Hit>(hit | (element(x[i + k]) == value ? Hit(1) : Hit(0)));
      if (hit != 0) break;
    }
    while (element(x[i]) != value) ++i;
    return i;
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

  // Positions within a batch of rows, in integers of the elements' width, so that values and
  // positions fill vectors alike; -1: none of the batch. GCC's vectors, because its vectoriser
  // gives up on the two selects.
  using Local = std::make_signed_t<formulas::Bits<Stored>>;
  static constexpr int64_t kBatch = sizeof(Stored) == 1 ? 64 : sizeof(Stored) == 2 ? 4096 : kLeaf;
  static constexpr int64_t kChunk = 512;  // columns of local positions
  static constexpr int64_t kWide = kVectorBytes / static_cast<int64_t>(sizeof(Stored));
  typedef Stored Values __attribute__((vector_size(kVectorBytes)));
  typedef Local Locals __attribute__((vector_size(kVectorBytes)));

  static Values elements(Values x) {
    if constexpr (std::is_same_v<T, bool>) return x != 0 ? Values{} + 1 : Values{};
    return x;
  }

  // `together` rows for a vector of columns.
  template <int64_t together>
  ITERLAB_FN static void add_vector(const char* data, int64_t row_stride, Local first,
                                    Stored* values, Local* positions) {
    Values best;
    Locals position;
    __builtin_memcpy(&best, values, kVectorBytes);
    __builtin_memcpy(&position, positions, kVectorBytes);
#pragma GCC unroll 8
    for (int64_t r = 0; r < together; ++r) {
      Values x;
      __builtin_memcpy(&x, data + r * row_stride, kVectorBytes);
      x = elements(x);
      const Locals better = Formula::better_lanes(x, best);
      best = better ? x : best;
      const Locals here = Locals{} + static_cast<Local>(first + static_cast<Local>(r));
      position = better ? here : position;
    }
    __builtin_memcpy(values, &best, kVectorBytes);
    __builtin_memcpy(positions, &position, kVectorBytes);
  }

  template <int64_t together>
  static void add_rows(const char* data, int64_t row_stride, Local first, int64_t columns,
                       Stored* values, Local* positions) {
    int64_t c = 0;
    for (; c + kWide <= columns; c += kWide) {
      add_vector<together>(data + c * static_cast<int64_t>(sizeof(Stored)), row_stride, first,
                           values + c, positions + c);
    }
    for (; c < columns; ++c) {
      for (int64_t r = 0; r < together; ++r) {
        const Stored x = element(reinterpret_cast<const Stored*>(data + r * row_stride)[c]);
        if (!Formula::better(x, values[c])) continue;
        values[c] = x;
        positions[c] = static_cast<Local>(first + r);
      }
    }
  }

  // A chunk of columns, a batch of rows.
  static void add_batch(const char* data, int64_t row_stride, int64_t first, int64_t count,
                        int64_t columns, Stored* values, int64_t* positions) {
    alignas(64) Local local[kChunk];
    std::fill_n(local, columns, Local(-1));
    int64_t r = 0;
    for (; r + kRowsTogether <= count; r += kRowsTogether) {
      add_rows<kRowsTogether>(data + r * row_stride, row_stride, static_cast<Local>(r), columns,
                              values, local);
    }
    for (; r < count; ++r)
      add_rows<1>(data + r * row_stride, row_stride, static_cast<Local>(r), columns, values, local);
    for (int64_t c = 0; c < columns; ++c)
      positions[c] = local[c] < 0 ? positions[c] : first + local[c];
  }

  static void rows(const char* data, int64_t row_stride, int64_t first, int64_t count,
                   int64_t columns, double, char* lanes) {
    for (int64_t r = 0; r < count; r += kBatch) {
      for (int64_t c = 0; c < columns; c += kChunk) {
        add_batch(data + r * row_stride + c * static_cast<int64_t>(sizeof(Stored)), row_stride,
                  first + r, std::min(kBatch, count - r), std::min(kChunk, columns - c),
                  values_of(lanes, columns) + c, positions_of(lanes) + c);
      }
    }
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
