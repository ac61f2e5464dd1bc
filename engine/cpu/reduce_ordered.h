// Reduction loops whose order decides the bits: floating point sums, products, moments, norms.
#pragma once

#include "engine/cpu/reduce_few.h"

#include <array>
#include <cstdlib>
#include <span>

namespace iterlab::cpu {
inline namespace CPU_CAPABILITY {

template <class Formula, class E, class T>
struct OrderedLoops : StateLoops<Formula, OrderedVector<E, T>>, FewLoops<Formula, E, T> {
  using Elements = OrderedElements<Formula, E, T>;
  using Elements::N, Elements::W, Elements::load, Elements::nth, Elements::meet;
  using typename Elements::V, typename Elements::Access, typename Elements::Meet,
      typename Elements::Table;
  static constexpr int64_t K = kLanes / W;
  static constexpr int kLevels = 8;  // more than a leaf's blocks fill

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

  // Blocks that are reduced together, so that their additions need not wait for each other: as many
  // as leave half of the registers free.
  static constexpr int64_t kRegisters = W >= 8 ? 32 : 16;
  static constexpr int G =
      Formula::kHeavy ? 1 : static_cast<int>(std::clamp<int64_t>(kRegisters / 2 / (K * N), 1, 4));

  static std::array<Run, 1> one_run(int64_t count) { return {{{0, count}}}; }

  // `groups` blocks of kBlock elements at most, all in the same runs; each result is in the first
  // lane.
  template <int groups>
  ITERLAB_FN static void block(const char* const (&data)[groups], std::span<const Run> runs,
                               double number, const Table& table, V (&total)[groups][N]) {
    V lanes[groups][K][N];
    for (int g = 0; g < groups; ++g) {
      for (int64_t k = 0; k < K; ++k) Formula::start(lanes[g][k]);
    }
    int64_t added = 0;  // elements of each lane
    for (const Run& run : runs) {
      const E* x[groups];
      for (int g = 0; g < groups; ++g) x[g] = reinterpret_cast<const E*>(data[g] + run.offset);
      const int64_t whole = run.count / kLanes, rest = run.count % kLanes;
      for (int64_t i = 0; i < whole; ++i) {
        const V inverse = nth(added + i);
#pragma GCC unroll 4
        for (int g = 0; g < groups; ++g) {
#pragma GCC unroll 4
          for (int64_t k = 0; k < K; ++k)
            Formula::add(lanes[g][k], load(x[g] + i * kLanes + k * W), inverse, number);
        }
      }
      added += whole;
      const V inverse = nth(std::min(added, kLaneElements - 1));
      for (int g = 0; rest > 0 && g < groups; ++g)
        tail(x[g] + whole * kLanes, rest, inverse, number, lanes[g]);
    }
    for (int g = 0; g < groups; ++g) {
      fold_vectors<kLanes / 2>(lanes[g], table, 0);
      for (int n = 0; n < N; ++n) total[g][n] = lanes[g][0][n];
    }
  }

  // Fewer elements than lanes.
  ITERLAB_FN static void tail(const E* x, int64_t rest, const V& inverse, double number,
                              V (&lanes)[K][N]) {
#pragma GCC unroll 4
    for (int64_t k = 0; k < K; ++k) {
      const int64_t some = std::min(W, rest - k * W);
      if (some <= 0) break;
      V joined[N];
      for (int n = 0; n < N; ++n) joined[n] = lanes[k][n];
      Formula::add(joined, load(x + k * W, some), inverse, number);
      for (int n = 0; n < N; ++n) lanes[k][n] = Access::merge(lanes[k][n], joined[n], some);
    }
  }

  // The blocks of a leaf, combined as a binary counter carries.
  struct Counter {
    V levels[kLevels][N];
    int64_t elements[kLevels];
    int64_t pushed = 0;

    void push(V (&total)[N], int64_t size) {
      int level = 0;
      for (; (pushed >> level & 1) != 0; ++level) join(level, total, size);
      for (int n = 0; n < N; ++n) levels[level][n] = total[n];
      elements[level] = size;
      ++pushed;
    }
    void finish(V (&total)[N]) {
      int64_t size = 0;
      for (int level = 0; level < kLevels; ++level) {
        if ((pushed >> level & 1) == 0) continue;
        if (size != 0) {
          join(level, total, size);
        } else {
          for (int n = 0; n < N; ++n) total[n] = levels[level][n];
          size = elements[level];
        }
      }
    }
    // A level with what comes after it, into `total`.
    void join(int level, V (&total)[N], int64_t& size) {
      V earlier[N];
      for (int n = 0; n < N; ++n) earlier[n] = levels[level][n];
      Formula::combine(earlier, total, meeting<V>(elements[level], Formula::kCounts ? size : 0));
      for (int n = 0; n < N; ++n) total[n] = earlier[n];
      size += elements[level];
    }
  };

  // More than a block of contiguous elements. The blocks of a group are streams: Note [Streams]
  static void blocks(const char* data, int64_t count, double number, const Table& whole,
                     const Table& last, V (&total)[N]) {
    alignas(64) T totals[kLeafBlocks][N][W];
    const auto keep = [&](int64_t b, const V(&state)[N]) {
      for (int n = 0; n < N; ++n) Access::store(totals[b][n], state[n]);
    };
    const auto start_of = [&](int64_t b) {
      return data + b * kBlock * static_cast<int64_t>(sizeof(E));
    };
    const int64_t full = count / kBlock, apart = full / G;
    for (int64_t b = 0; b < apart; ++b) {
      const char* starts[G];
      for (int g = 0; g < G; ++g) starts[g] = start_of(b + g * apart);
      V group[G][N];
      block<G>(starts, one_run(kBlock), number, whole, group);
      for (int g = 0; g < G; ++g) keep(b + g * apart, group[g]);
    }
    for (int64_t b = G * apart; b * kBlock < count; ++b) {
      V one[1][N];
      const int64_t size = std::min(kBlock, count - b * kBlock);
      block<1>({start_of(b)}, one_run(size), number, b < full ? whole : last, one);
      keep(b, one[0]);
    }
    Counter counter;
    for (int64_t b = 0; b * kBlock < count; ++b) {
      for (int n = 0; n < N; ++n) total[n] = Access::load(totals[b][n]);
      counter.push(total, std::min(kBlock, count - b * kBlock));
    }
    counter.finish(total);
  }

  // The same of G rows, block by block in turn.
  static void rows_of_blocks(const char* const (&data)[G], int64_t count, double number,
                             const Table& whole, const Table& last, V (&total)[G][N]) {
    Counter counters[G];
    for (int64_t begin = 0; begin < count; begin += kBlock) {
      const int64_t size = std::min(kBlock, count - begin);
      const char* starts[G];
      for (int g = 0; g < G; ++g) starts[g] = data[g] + begin * static_cast<int64_t>(sizeof(E));
      block<G>(starts, one_run(size), number, size == kBlock ? whole : last, total);
      for (int g = 0; g < G; ++g) counters[g].push(total[g], size);
    }
    for (int g = 0; g < G; ++g) counters[g].finish(total[g]);
  }

  // Groups are rows, or blocks of one row: Note [Streams].
  static void inner(const char* data, int64_t row_stride, int64_t rows, int64_t count,
                    double number, char* row, int64_t columns, int64_t column) {
    T* const out = reinterpret_cast<T*>(row) + column;
    const Table last(count % kBlock == 0 ? kBlock : count % kBlock);
    const auto row_at = [&](int64_t r) { return data + r * row_stride; };
    const auto store = [&](int64_t r, const V(&total)[N]) {
      for (int n = 0; n < N; ++n) Access::store(out + n * columns + r, total[n], 1);
    };
    if (count > kBlock) {
      const Table whole(kBlock);
      const int64_t apart = rows / G;
      for (int64_t r = 0; r < apart; ++r) {
        const char* starts[G];
        for (int g = 0; g < G; ++g) starts[g] = row_at(r + g * apart);
        V totals[G][N];
        rows_of_blocks(starts, count, number, whole, last, totals);
        for (int g = 0; g < G; ++g) store(r + g * apart, totals[g]);
      }
      for (int64_t r = G * apart; r < rows; ++r) {
        V total[N];
        blocks(row_at(r), count, number, whole, last, total);
        store(r, total);
      }
      return;
    }
    const int64_t apart = rows / G;
    for (int64_t r = 0; r < apart; ++r) {
      const char* starts[G];
      for (int g = 0; g < G; ++g) starts[g] = row_at(r + g * apart);
      V totals[G][N];
      block<G>(starts, one_run(count), number, last, totals);
      for (int g = 0; g < G; ++g) store(r + g * apart, totals[g]);
    }
    for (int64_t r = G * apart; r < rows; ++r) {
      V totals[1][N];
      block<1>({row_at(r)}, one_run(count), number, last, totals);
      store(r, totals[0]);
    }
  }

  // Runs that end before a hardware prefetcher has found them, so far apart that they hardly lie in
  // the caches: asked for a group ahead, sums over the outer and the inner dim of three took 0.6 to
  // 0.8 of the time; longer or closer runs, 1.2 times.
  static bool must_ask(std::span<const Run> runs) {
    return runs.size() > 1 && runs[0].count * static_cast<int64_t>(sizeof(E)) <= 2048 &&
           std::abs(runs[1].offset - runs[0].offset) >= 32 * 1024;
  }
  // The empty statement: Note [Prefetch].
  static void ask_for(const char* data, std::span<const Run> runs, int64_t row_stride,
                      int64_t rows) {
    asm volatile("");
    for (const Run& run : runs) {
      const int64_t bytes = run.count * static_cast<int64_t>(sizeof(E));
      for (int64_t r = 0; r < rows; ++r) {
        const char* const begin = data + r * row_stride + run.offset;
        for (int64_t b = 0; b < bytes; b += 64) __builtin_prefetch(begin + b, 0, 2);
      }
    }
  }

  // Groups are neighbours: their runs are near each other.
  static void block_of_runs(const char* data, std::span<const Run> runs, int64_t row_stride,
                            int64_t rows, double number, char* row) {
    T* const out = reinterpret_cast<T*>(row);
    int64_t count = 0;
    for (const Run& run : runs) count += run.count;
    const Table table(count);
    const auto store = [&](int64_t r, const V(&total)[N]) {
      for (int n = 0; n < N; ++n) Access::store(out + n * rows + r, total[n], 1);
    };
    const bool ask = must_ask(runs);
    int64_t r = 0;
    for (; r + G <= rows; r += G) {
      const char* starts[G];
      for (int g = 0; g < G; ++g) starts[g] = data + (r + g) * row_stride;
      if (ask && r + 2 * G <= rows) ask_for(data + (r + G) * row_stride, runs, row_stride, G);
      V totals[G][N];
      block<G>(starts, runs, number, table, totals);
      for (int g = 0; g < G; ++g) store(r + g, totals[g]);
    }
    for (; r < rows; ++r) {
      V totals[1][N];
      block<1>({data + r * row_stride}, runs, number, table, totals);
      store(r, totals[0]);
    }
  }

  // Vectors of accumulators that stay in registers while rows are added.
  static constexpr int U =
      Formula::kHeavy ? 1 : static_cast<int>(std::clamp<int64_t>(kRegisters / 4 / N, 1, 4));

  // `groups` elements, `stride` bytes apart, to each of `count` accumulators, `apart` between
  // components: elements number `first`... of their lanes.
  template <int vectors>
  ITERLAB_FN static void add_vectors(const char* x, int64_t stride, int64_t groups, int64_t first,
                                     T* state, int64_t apart, double number) {
    V s[vectors][N];
    for (int u = 0; u < vectors; ++u) {
      for (int n = 0; n < N; ++n) s[u][n] = Access::load(state + n * apart + u * W);
    }
    for (int64_t g = 0; g < groups; ++g, x += stride) {
      const V inverse = nth(first + g);
#pragma GCC unroll 4
      for (int u = 0; u < vectors; ++u)
        Formula::add(s[u], load(reinterpret_cast<const E*>(x) + u * W), inverse, number);
    }
    for (int u = 0; u < vectors; ++u) {
      for (int n = 0; n < N; ++n) Access::store(state + n * apart + u * W, s[u][n]);
    }
  }
  ITERLAB_FN static void accumulate(const char* x, int64_t stride, int64_t groups, int64_t first,
                                    int64_t count, T* state, int64_t apart, double number) {
    constexpr auto size = static_cast<int64_t>(sizeof(E));
    int64_t c = 0;
    for (; c + U * W <= count; c += U * W)
      add_vectors<U>(x + c * size, stride, groups, first, state + c, apart, number);
    for (; c + W <= count; c += W)
      add_vectors<1>(x + c * size, stride, groups, first, state + c, apart, number);
    const int64_t rest = count - c;
    if (rest == 0) return;
    V s[N];
    for (int n = 0; n < N; ++n) s[n] = Access::load(state + n * apart + c, rest);
    for (int64_t g = 0; g < groups; ++g) {
      Formula::add(s, load(reinterpret_cast<const E*>(x + c * size + g * stride), rest),
                   nth(first + g), number);
    }
    for (int n = 0; n < N; ++n) Access::store(state + n * apart + c, s[n], rest);
  }

  // Rows r, r + kLanes, ... go to one lane and are added together: four of them, few enough streams
  // for the prefetcher; all of a block where they are dense and narrow. Dense rows are taken kLanes
  // at a time: they lie as the accumulators do, so that a few columns make whole vectors.
  static void rows(const char* data, int64_t row_stride, int64_t first, int64_t count,
                   int64_t columns, double number, char* lanes) {
    const bool dense = row_stride == columns * static_cast<int64_t>(sizeof(E));
    const int64_t most = dense && kLanes * row_stride <= 1024 ? kLaneElements : 4;
    T* const state = reinterpret_cast<T*>(lanes);
    const int64_t apart = kLanes * columns;
    int64_t r = 0;
    while (r < count) {
      const int64_t lane = (first + r) % kLanes, nth_element = (first + r) / kLanes;
      const char* const x = data + r * row_stride;
      const int64_t groups = lane == 0 ? std::min(most, (count - r) / kLanes) : 0;
      if (groups == 0) {
        const int64_t together = dense ? std::min(kLanes - lane, count - r) : 1;
        accumulate(x, 0, 1, nth_element, together * columns, state + lane * columns, apart, number);
        r += together;
        continue;
      }
      const int64_t stride = kLanes * row_stride;
      if (dense) {
        accumulate(x, stride, groups, nth_element, kLanes * columns, state, apart, number);
      } else {
        for (int64_t l = 0; l < kLanes; ++l) {
          accumulate(x + l * row_stride, stride, groups, nth_element, columns, state + l * columns,
                     apart, number);
        }
      }
      r += groups * kLanes;
    }
  }
};

}  // namespace CPU_CAPABILITY
}  // namespace iterlab::cpu
