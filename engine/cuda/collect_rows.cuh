// How a thread of the outer reductions collects columns that are its own.
#pragma once

#include "engine/cuda/collect.cuh"

namespace iterlab::cuda {

// V elements stored as S anywhere, by the words that hold them.
template <class S, int V>
struct LooseGroup {
  static constexpr int kWords = V * static_cast<int>(sizeof(S)) / 4;
  static constexpr bool kShifts = sizeof(S) < 4;
  uint32_t word[kWords + kShifts], shift;

  __device__ __forceinline__ void load(const char* data) {
    const auto offset = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(data)) & 3;
    const auto* const from = reinterpret_cast<const uint32_t*>(data - offset);
#pragma unroll
    for (int i = 0; i < kWords; ++i) word[i] = from[i];
    if constexpr (kShifts) {
      shift = 8 * offset;
      word[kWords] = offset != 0 ? from[kWords] : 0;
    }
  }
  template <class C>
  __device__ __forceinline__ void convert_to(C (&group)[V]) const {
    WholeGroup<S, V> whole;
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      if constexpr (kShifts) {
        whole.word[i] = __funnelshift_r(word[i], word[i + 1], shift);
      } else {
        whole.word[i] = word[i];
      }
    }
    whole.convert_to(group);
  }
};

// number_for [first, last) of V neighbouring outputs.
template <class R, class C, int V>
__device__ __forceinline__ void numbers_for(const ReduceArguments& args, const char* data,
                                            int first, int last, double (&numbers)[V]) {
  if constexpr (R::kShifted) {
    C firsts[V] = {};
    if (first < last) load_any<C, V>(args, data, args.dims[0].kept.stride, first, last, firsts);
#pragma unroll
    for (int j = 0; j < V; ++j) numbers[j] = R::origin(firsts[j]);
  } else {
#pragma unroll
    for (int j = 0; j < V; ++j) numbers[j] = args.number;
  }
}

// Rows [begin, end) of V columns, those of one lane. Of the columns [first, last) are its own.
template <class R, class C, int V>
__device__ __forceinline__ void collect_rows(const ReduceArguments& args, const char* input,
                                             int64_t begin, int64_t end, int lane, int first,
                                             int last, typename R::State (&states)[V]) {
  const auto rows = static_cast<uint32_t>(max(end - begin, int64_t{0}));
  const auto lanes = static_cast<uint32_t>(args.lanes);
  uint32_t at = static_cast<uint32_t>(lane);  // the next row
  const auto row_data = [&](uint32_t row) {
    if (args.reduced_dims <= 1) return input + (begin + row) * args.dims[0].reduced.stride;
    return input + reduced_offset(args, 0, static_cast<uint32_t>(begin) + row);
  };
  typename R::Lane_ sums[V];
#pragma unroll
  for (int j = 0; j < V; ++j) R::start(sums[j]);
  double numbers[V];
  numbers_for<R, C, V>(args, input, first, rows > 0 ? last : first, numbers);
  int64_t count = 0;
  const auto add = [&](const C(&values)[V]) {
    ++count;
    const double nth = R::kCounts ? 1.0 / static_cast<double>(count) : 0;
#pragma unroll
    for (int j = 0; j < V; ++j) R::add(sums[j], values[j], at, nth, numbers[j]);
    at += lanes;
  };
  // Several rows on the way.
  const auto take_rows = [&]<class Incoming, int U>(const auto& next_row) {
    const auto load = [&](Incoming(&incoming)[U], int count) {
#pragma unroll
      for (int u = 0; u < U; ++u) {
        if (u >= count) break;
        incoming[u].load(next_row());
      }
    };
    const auto add_all = [&](const Incoming(&incoming)[U], int count) {
#pragma unroll
      for (int u = 0; u < U; ++u) {
        if (u >= count) break;
        C values[V];
        incoming[u].convert_to(values);
        add(values);
      }
    };
    in_batches<Incoming, U>(steps(at, rows, args.lanes), load, add_all);
  };
  if (args.whole_rows || (args.element_type < 0 && args.reduced_dims <= 2 && last - first == V)) {
    const char* from = row_data(at);
    with_stored_type<C>(args.type, [&](auto stored) {
      using S = decltype(stored);
      if constexpr (V == outer_width(sizeof(S))) {
        // Of states of several words there is no room for as many.
        constexpr int U =
            sizeof(typename R::Lane_) > 8 ? 4 : groups_in_flight(sizeof(WholeGroup<S, V>));
        // To the next row, and on along the second dim where that is beyond the first.
        uint32_t size = UINT32_MAX, row = at, rounds = 0;
        int64_t step = lanes * args.dims[0].reduced.stride, wrap = 0;
        if (args.reduced_dims == 2) {
          const ReducedDim &inner = args.dims[0].reduced, &outer = args.dims[1].reduced;
          size = static_cast<uint32_t>(args.reduced_size);
          row = (static_cast<uint32_t>(begin) + at) % size;
          wrap = outer.stride - size * inner.stride;
          rounds = inner.divider.divide(lanes);
          step += rounds * wrap;
        }
        const uint32_t rest = lanes - rounds * size;
        const auto next_row = [&] {
          const char* const data = from;
          from += step;
          row += rest;
          if (row >= size) {
            row -= size;
            from += wrap;
          }
          return data;
        };
        if (args.whole_rows) {
          take_rows.template operator()<WholeGroup<S, V>, U>(next_row);
        } else {
          take_rows.template operator()<LooseGroup<S, V>, U>(next_row);
        }
      }
    });
  }
  while (at < rows) {
    C values[V];
    load_any<C, V>(args, row_data(at), args.dims[0].kept.stride, first, last, values);
    add(values);
  }
#pragma unroll
  for (int j = 0; j < V; ++j) states[j] = R::state_of(sums[j], begin, count);
}

}  // namespace iterlab::cuda
