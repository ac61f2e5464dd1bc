// Reduction loops of integers and truth values: exact in any order, so that a block is collected in
// whatever lanes the compiler likes, as narrow as its elements allow.
#pragma once

#include "engine/cpu/byte_sum.h"
#include "engine/cpu/kernel_table.h"
#include "engine/cpu/reduce_vec.h"
#include "engine/cpu/stream.h"
#include "iterlab/reduce_formulas.h"

#include <algorithm>

namespace iterlab::cpu {
inline namespace CPU_CAPABILITY {

template <class Formula, class E, class T>
struct ExactLoops {
  static constexpr int N = Formula::components;
  using B = typename Formula::template Block<E, T>;
  // A bool is read as a byte: memory may hold more than 0 and 1.
  using Stored = std::conditional_t<std::is_same_v<E, bool>, uint8_t, E>;
  static constexpr int64_t kBlockElements = 4096;  // far from filling a Block type
  static constexpr int64_t kRowsTogether = 8;      // rows read for one update of the accumulators

  template <class To>
  static To element(Stored x) {
    if constexpr (requires { Formula::template map<To>(x); }) {
      return Formula::template map<To>(x);
    } else if constexpr (std::is_same_v<E, bool>) {
      return x != 0;
    } else {
      return static_cast<To>(x);
    }
  }
  template <class To>
  static void add(Lane<To>* state, Stored x) {
    Formula::add(state, Lane<To>(element<To>(x)), Lane<To>(To(0)), 0);
  }
  template <class From>
  static void join(Lane<T>* total, const Lane<From>* block) {
    Lane<T> wide[N];
    for (int n = 0; n < N; ++n) {
      if constexpr (requires { Formula::narrow(block[n].value); }) {
        wide[n] = Formula::narrow(block[n].value);
      } else {
        wide[n] = static_cast<T>(block[n].value);
      }
    }
    Formula::combine(total, wide, {T(0), T(0)});
  }

  // A block of contiguous elements.
  static void collect(const Stored* x, int64_t count, Lane<B>* block) {
#if defined(ITERLAB_HAS_BYTE_SUM)
    constexpr bool sums = std::is_base_of_v<formulas::Sum, Formula>;
    if constexpr (sums && sizeof(E) == 1) {
      constexpr bool truth = std::is_same_v<E, bool> || Formula::kSignless;
      constexpr ByteKind kind = truth                      ? ByteKind::Truth
                                : std::is_signed_v<Stored> ? ByteKind::Signed
                                                           : ByteKind::Unsigned;
      block[0] = static_cast<B>(sum_bytes<kind>(reinterpret_cast<const uint8_t*>(x), count));
      return;
    } else if constexpr (sums && std::is_same_v<E, int16_t>) {
      static_assert(kBlockElements <= kWordBlock);
      block[0] = static_cast<B>(sum_words(x, count));
      return;
    }
#endif
    Formula::start(block);
    for (int64_t i = 0; i < count; ++i) add(block, x[i]);
  }

  static void collect_into(const Stored* x, int64_t count, Lane<T>* total) {
    Lane<B> block[N];
    collect(x, count, block);
    join(total, block);
  }
  static constexpr bool stops_early = Formula::stops_early;
  static bool is_final(const char* row, int64_t columns) {
    const T* const states = reinterpret_cast<const T*>(row);
    if constexpr (stops_early) return std::all_of(states, states + columns, Formula::is_final);
    return false;
  }
  static bool is_final(const Lane<T>* total) {
    return is_final(reinterpret_cast<const char*>(total), 1);
  }

  // Long runs are read a part of a page at each place: Note [Streams]
  static void inner(const char* data, int64_t row_stride, int64_t rows, int64_t count, double,
                    char* row, int64_t columns, int64_t column) {
    constexpr int64_t kPart = 512 / static_cast<int64_t>(sizeof(E));
    for (int64_t r = 0; r < rows; ++r) {
      const Stored* x = reinterpret_cast<const Stored*>(data + r * row_stride);
      int64_t rest = count;
      Lane<T> total[N];
      Formula::start(total);
      if (count >= kStreams * (kStreamRun / static_cast<int64_t>(sizeof(E)))) {
        const int64_t apart = count / kStreams / kPart * kPart;
        for (int64_t done = 0; done < apart && !is_final(total); done += kPart) {
          for (int64_t k = 0; k < kStreams; ++k) collect_into(x + k * apart + done, kPart, total);
        }
        x += kStreams * apart;
        rest -= kStreams * apart;
      }
      for (int64_t done = 0; done < rest && !is_final(total); done += kBlockElements)
        collect_into(x + done, std::min(rest - done, kBlockElements), total);
      for (int n = 0; n < N; ++n)
        reinterpret_cast<T*>(row)[n * columns + column + r] = total[n].value;
    }
  }

  static void block_of_runs(const char* data, std::span<const Run> runs, int64_t row_stride,
                            int64_t rows, double, char* row) {
    for (int64_t r = 0; r < rows; ++r) {
      Lane<T> total[N];
      Formula::start(total);
      for (const Run& run : runs) {
        collect_into(reinterpret_cast<const Stored*>(data + r * row_stride + run.offset), run.count,
                     total);
      }
      for (int n = 0; n < N; ++n) reinterpret_cast<T*>(row)[n * rows + r] = total[n].value;
    }
  }

  static void start(char* lanes, int64_t, int64_t columns) {
    Lane<T> state[N];
    Formula::start(state);
    for (int n = 0; n < N; ++n)
      std::fill_n(reinterpret_cast<T*>(lanes) + n * columns, columns, state[n].value);
  }

  template <int64_t together>
  static void add_rows(const char* __restrict data, int64_t row_stride, int64_t columns,
                       T* __restrict first, T* __restrict second) {
    static_assert(N <= 2);
    const Stored* x[together];
    for (int64_t r = 0; r < together; ++r)
      x[r] = reinterpret_cast<const Stored*>(data + r * row_stride);
    for (int64_t c = 0; c < columns; ++c) {
      Lane<typename Formula::template Rows<E, T>> block[N];
      Formula::start(block);
#pragma GCC unroll 8
      for (int64_t r = 0; r < together; ++r) add(block, x[r][c]);
      Lane<T> total[N];
      total[0] = first[c];
      if constexpr (N == 2) total[1] = second[c];
      join(total, block);
      first[c] = total[0].value;
      if constexpr (N == 2) second[c] = total[1].value;
    }
  }

  // Dense rows of a few columns: several of them are a wide one, whose states are folded at the
  // end. Returns how many rows that were.
  static int64_t narrow_rows(const char* data, int64_t count, int64_t columns, T* first,
                             T* second) {
    constexpr int64_t kWide = 64;
    const int64_t together = kWide / columns;
    if (together < 2 || count < 2 * together * kRowsTogether) return 0;
    T wide[2][kWide];
    const int64_t width = together * columns;
    start(reinterpret_cast<char*>(wide[0]), 1, kWide);
    const int64_t stride = width * static_cast<int64_t>(sizeof(Stored));
    int64_t r = 0;
    for (; r + together * kRowsTogether <= count; r += together * kRowsTogether)
      add_rows<kRowsTogether>(data + r / together * stride, stride, width, wide[0], wide[1]);
    for (int64_t c = 0; c < width; ++c) {
      const int64_t column = c % columns;
      Lane<T> total[2] = {first[column], second[column]};
      const Lane<T> more[2] = {wide[0][c], wide[N - 1][c]};
      Formula::combine(total, more, {T(0), T(0)});
      first[column] = total[0].value;
      if constexpr (N == 2) second[column] = total[1].value;
    }
    return r;
  }

  static void rows(const char* data, int64_t row_stride, int64_t, int64_t count, int64_t columns,
                   double, char* lanes) {
    T* const first = reinterpret_cast<T*>(lanes);
    T* const second = first + (N - 1) * columns;
    int64_t r = 0;
    if (row_stride == columns * static_cast<int64_t>(sizeof(Stored)))
      r = narrow_rows(data, count, columns, first, second);
    for (; r + kRowsTogether <= count; r += kRowsTogether)
      add_rows<kRowsTogether>(data + r * row_stride, row_stride, columns, first, second);
    for (; r < count; ++r) add_rows<1>(data + r * row_stride, row_stride, columns, first, second);
  }

  static void fold(char* lanes, int64_t, int64_t columns, char* row) {
    std::copy_n(reinterpret_cast<const T*>(lanes), N * columns, reinterpret_cast<T*>(row));
  }

  static void combine(char* row, const char* other, int64_t columns, int64_t, int64_t) {
    T* const a = reinterpret_cast<T*>(row);
    const T* const b = reinterpret_cast<const T*>(other);
    for (int64_t c = 0; c < columns; ++c) {
      Lane<T> total[N], more[N];
      for (int n = 0; n < N; ++n) {
        total[n] = a[n * columns + c];
        more[n] = b[n * columns + c];
      }
      Formula::combine(total, more, {T(0), T(0)});
      for (int n = 0; n < N; ++n) a[n * columns + c] = total[n].value;
    }
  }

  template <class Op, int results>
  static void project(const char* row, int64_t columns, int64_t reduced, double number,
                      char* const* out) {
    const T* const x = reinterpret_cast<const T*>(row);
    for (int64_t c = 0; c < columns; ++c) {
      Lane<T> total[N], result[results];
      for (int n = 0; n < N; ++n) total[n] = x[n * columns + c];
      Op::project(total, static_cast<double>(reduced), number, result);
      for (int n = 0; n < results; ++n) reinterpret_cast<T*>(out[n])[c] = result[n].value;
    }
  }
};

}  // namespace CPU_CAPABILITY
}  // namespace iterlab::cpu
