// How a thread of a reduction collects the elements that are its own.
#pragma once

#include "engine/cuda/reducer.cuh"

namespace iterlab::cuda {

// What elements of compute type C usually come as. Note [Hot storage types]
template <class C>
inline constexpr TypeMask hot_elements = types<C>;
template <>
inline constexpr TypeMask hot_elements<float> = types<float, Half, BFloat16>;

// Where an output's elements begin, and where its results go.
struct OutputPlace {
  int64_t input = 0;
  int64_t results[kMaxResults] = {};

  // `index` along the kept dims from `from` on.
  __device__ __forceinline__ void add(const ReduceArguments& args, int from, uint32_t index) {
#pragma unroll 1
    for (int d = from; d < args.kept_dims; ++d) {
      const KeptDim& dim = args.dims[d].kept;
      const uint32_t next = dim.divider.divide(index);
      move(dim, index - next * dim.divider.divisor);
      index = next;
    }
  }
  // `position` along one.
  __device__ __forceinline__ void move(const KeptDim& dim, int64_t position) {
    input += position * dim.stride;
    for (int i = 0; i < kMaxResults; ++i) results[i] += position * dim.results[i];
  }
};

// The offset of `index` along the reduced dims from `from` on.
__device__ __forceinline__ int64_t reduced_offset(const ReduceArguments& args, int from,
                                                  uint32_t index) {
  int64_t offset = 0;
#pragma unroll 1
  for (int d = from; d < args.reduced_dims; ++d) {
    const ReducedDim& dim = args.dims[d].reduced;
    const uint32_t next = dim.divider.divide(index);
    offset += static_cast<int64_t>(index - next * dim.divider.divisor) * dim.stride;
    index = next;
  }
  return offset;
}

// with_type_of what elements of compute type C usually come as.
template <class C, class Fn>
__device__ __forceinline__ bool with_stored_type(int type, const Fn& fn) {
  return with_type_of<hot_elements<C>>(type, fn);
}

// What Reducer::add takes besides elements of the output whose first is at `data`.
template <class R, class C>
__device__ __forceinline__ double number_for(const ReduceArguments& args, const char* data) {
  if constexpr (R::kShifted) {
    if (args.reduced == 0) return 0;
    C first{};
    const bool is_usual =
        args.element_type < 0 &&
        with_stored_type<C>(
            args.type, [&](auto stored) { first = load_as<C, decltype(stored)>(data); });
    return R::origin(is_usual ? first : load_rounded<C>(args, data));
  } else {
    return args.number;
  }
}

// V elements stored as S, at a boundary of their accesses.
template <class S, int V>
struct WholeGroup {
  static constexpr int kBytes = V * static_cast<int>(sizeof(S)), kStep = access_bytes(kBytes);
  uint32_t word[kBytes / 4];

  __device__ __forceinline__ void load(const char* data) {
#pragma unroll
    for (int i = 0; i < kBytes; i += kStep) load_aligned<kStep>(data + i, word + i / 4);
  }
  __device__ __forceinline__ const WholeGroup& words(uint32_t) const { return *this; }
  template <class C>
  __device__ __forceinline__ void convert_to(C (&group)[V]) const {
#pragma unroll
    for (int j = 0; j < V; ++j)
      group[j] = convert_bytes<C, S>(reinterpret_cast<const char*>(word) + j * sizeof(S));
  }
};

// V elements stored as S, all groups equally far from a boundary: the accesses that cover them.
// Note [Misaligned groups]
template <class S, int V>
struct ShiftedGroup {
  static constexpr int kBytes = WholeGroup<S, V>::kBytes, kStep = WholeGroup<S, V>::kStep;
  uint32_t word[(kBytes + kStep) / 4];

  static __device__ __forceinline__ uint32_t offset_of(const char* data) {
    constexpr auto kOffsets = static_cast<uint32_t>((kStep - 1) & -static_cast<int>(sizeof(S)));
    return static_cast<uint32_t>(reinterpret_cast<uintptr_t>(data)) & kOffsets;
  }
  // The first at `data` is `offset` bytes before the group, and more than 0.
  __device__ __forceinline__ void load(const char* data) {
#pragma unroll
    for (int i = 0; i < kBytes + kStep; i += kStep) load_aligned<kStep>(data + i, word + i / 4);
  }
  __device__ __forceinline__ WholeGroup<S, V> words(uint32_t offset) const {
    WholeGroup<S, V> whole;
    shift_words<kStep>(word, offset, whole.word);
    return whole;
  }
};

// Groups of so many bytes that a thread loads before it uses the first: 128 bytes, so that 512
// threads of an SM have 64 KiB in flight.
constexpr int groups_in_flight(size_t bytes) { return bytes >= 32 ? 4 : 8; }

// Of a power of two.
__device__ __forceinline__ int exponent(int power) { return 31 - __clz(power); }

// How many of [from, end) there are, a power of two apart.
__device__ __forceinline__ int steps(int64_t from, int64_t end, int step) {
  const auto rest = static_cast<uint32_t>(max(end - from, int64_t{0}));
  return static_cast<int>((rest + static_cast<uint32_t>(step) - 1) >> exponent(step));
}

// Takes `rest` groups, U at a time: all of a batch are loaded before the first is used. load and
// add get how many there are: U, as a constant, but for the last batch.
template <class Incoming, int U, class Load, class Add>
__device__ __forceinline__ void in_batches(int rest, const Load& load, const Add& add) {
  Incoming incoming[U];
#pragma unroll 1
  for (; rest >= U; rest -= U) {
    load(incoming, U);
    add(incoming, U);
  }
  if (rest > 0) {
    load(incoming, rest);
    add(incoming, rest);
  }
}

// Whether groups that start at `data`, and every 16 bytes from there, can be taken by WholeGroup.
__device__ __forceinline__ bool is_aligned(const char* data) {
  return (reinterpret_cast<uintptr_t>(data) & 15) == 0;
}

// Any other group: V elements from `data`, `stride` apart, of which [first, last) exist.
template <class C, int V>
__device__ __forceinline__ void load_any(const ReduceArguments& args, const char* data,
                                         int64_t stride, int first, int last, C (&group)[V]) {
  constexpr TypeMask kHot = hot_elements<C>;
  if (first == 0 && last == V && stride == args.size && args.element_type < 0 &&
      is_hot<kHot>(args.type) && fills_words(V, args.size)) {
    RawGroup<kHot, V> raw;
    load_raw<kHot, V>(data, args.size, raw);
    return convert_raw<kHot, C, V>(raw, args.type, group);
  }
  const Group<C, V> each = load_each<C, V>(data, stride, args.type, first, last);
#pragma unroll
  for (int j = 0; j < V; ++j) {
    group[j] = each.lane[j];
    if (args.element_type >= 0) group[j] = round_through(group[j], args.element_type);
  }
}

// What one thread collects of one output: V lanes, or, where counts matter, one state that groups
// join as collections of their own (Chan's formula needs the counts, and groups at the ends of rows
// are short).
template <class R, class C, int V>
struct Collector {
  // Bytes are collected by the word. (Their order does not matter: they are exact.)
  static constexpr int kPer = R::kPacked ? 4 : 1, kLanes = V / kPer;
  typename R::Lane_ lanes[kLanes];
  typename R::State total;

  __device__ __forceinline__ Collector() {
    R::start(total);
    if constexpr (!R::kCounts) {
#pragma unroll
      for (int j = 0; j < kLanes; ++j) R::start(lanes[j]);
    }
  }
  __device__ __forceinline__ void add(const C (&group)[V], int first, int last, uint32_t at,
                                      double number) {
    if constexpr (R::kCounts) {
      typename R::Lane_ lane;
      R::start(lane);
#pragma unroll
      for (int j = 0; j < V; ++j) {
        if (first == 0 && j < last) R::add(lane, group[j], at + j, 1.0 / (j + 1), number);
        if (first != 0 && j >= first) R::add(lane, group[j], at + j, 1.0 / (j - first + 1), number);
      }
      R::combine(total, R::state_of(lane, 0, last - first));
    } else if (first == 0 && last == V) {
#pragma unroll
      for (int j = 0; j < V; ++j) R::add(lanes[j / kPer], group[j], at + j, 0, number);
    } else {
#pragma unroll
      for (int j = 0; j < V; ++j) {
        if (j >= first && j < last) R::add(lanes[j / kPer], group[j], at + j, 0, number);
      }
    }
  }
  // A whole group of elements of a byte each, by the word.
  template <int W>
  __device__ __forceinline__ void add_words(const uint32_t (&word)[W]) {
#pragma unroll
    for (int w = 0; w < W; ++w) R::add_word(lanes[w], word[w]);
  }
  __device__ __forceinline__ typename R::State finish(int64_t base) {
    if constexpr (!R::kCounts) {
      typename R::State states[kLanes];
#pragma unroll
      for (int j = 0; j < kLanes; ++j) states[j] = R::state_of(lanes[j], base, 0);
#pragma unroll
      for (int half = kLanes / 2; half > 0; half /= 2) {
#pragma unroll
        for (int j = 0; j < half; ++j) R::combine(states[j], states[j + half]);
      }
      total = states[0];
    }
    return total;
  }
};

// The groups [begin + lane, end) of one output, `args.lanes` apart.
template <class R, class C, int V>
__device__ __forceinline__ typename R::State collect_groups(const ReduceArguments& args,
                                                            const char* input, int64_t begin,
                                                            int64_t end, int lane) {
  const int64_t n = args.reduced_size, stride = args.dims[0].reduced.stride;
  const auto lanes = static_cast<int64_t>(args.lanes);
  const bool one_row = args.reduced_dims <= 1;
  const auto row_of = [&](int64_t group) -> int64_t {
    return one_row ? 0 : args.row_divider.divide(static_cast<uint32_t>(group));
  };
  const auto column_of = [&](int64_t group, int64_t row) {
    return (group - row * args.row_divider.divisor) * V;
  };
  const auto row_data = [&](int64_t row) {
    return input + reduced_offset(args, 1, static_cast<uint32_t>(row));
  };
  const int64_t first_row = row_of(begin);
  const int64_t base = first_row * n + column_of(begin, first_row);  // element number of the chunk
  Collector<R, C, V> collector;
  const double number = begin < end ? number_for<R, C>(args, input) : 0;
  int64_t group = begin + lane;
  // Whole groups. A short one at the end of the only row is left over.
  const bool aligned = is_aligned(input);
  if (args.whole_rows && (aligned || one_row)) {
    const int64_t whole = n % V == 0 ? end : min(end, args.groups - 1);
    with_stored_type<C>(args.type, [&](auto stored) {
      using S = decltype(stored);
      constexpr int U = groups_in_flight(V * sizeof(S)), kBytes = V * static_cast<int>(sizeof(S));
      // U groups at a time, the last time as many as there are. Rows that are all whole follow each
      // other in groups, so that a lane's elements are as far apart as its groups.
      const int rest = steps(group, whole, args.lanes);
      using Shifted = ShiftedGroup<S, V>;
      const uint32_t offset = Shifted::offset_of(input);
      const uint32_t step_at = static_cast<uint32_t>(lanes) * V;
      uint32_t at = static_cast<uint32_t>(lane) * V;
      const auto add_all = [&](const auto& incoming, int count) {
        constexpr int kCount = sizeof(incoming) / sizeof(incoming[0]);
#pragma unroll
        for (int u = 0; u < kCount; ++u) {
          if (u >= count) continue;
          if constexpr (R::kPacked) {
            collector.add_words(incoming[u].words(offset).word);
          } else {
            C values[V];
            incoming[u].words(offset).convert_to(values);
            collector.add(values, 0, V, at + static_cast<uint32_t>(u) * step_at, number);
          }
        }
        at += kCount * step_at;
      };
      const auto take_row = [&]<class Incoming, int kCount>() {
        const int64_t step = lanes * kBytes;
        const char* from = input + group * kBytes - offset;
        const auto load = [&](Incoming(&incoming)[kCount], int count) {
#pragma unroll
          for (int u = 0; u < kCount; ++u) {
            if (u < count) incoming[u].load(from + u * step);
          }
          from += kCount * step;
        };
        in_batches<Incoming, kCount>(rest, load, add_all);
      };
      if (offset != 0) {
        take_row.template operator()<Shifted, 4>();
      } else if (one_row) {
        take_row.template operator()<WholeGroup<S, V>, U>();
      } else if (args.reduced_dims == 2) {
        // Rows a stride apart: to the next group, and back by a row where that is in another.
        const auto per_row = static_cast<int>(args.row_divider.divisor);
        const auto rows = static_cast<int>(args.row_divider.divide(args.lanes));
        const int columns = args.lanes - rows * per_row;
        const int64_t pitch = args.dims[1].reduced.stride;
        const int64_t step = rows * pitch + columns * kBytes, wrap = pitch - per_row * kBytes;
        const int64_t row = row_of(group);
        auto column = static_cast<int>(group - row * per_row);
        const char* from = input + row * pitch + column * kBytes;
        const auto load = [&](WholeGroup<S, V>(&incoming)[U], int count) {
#pragma unroll
          for (int u = 0; u < U; ++u) {
            if (u < count) incoming[u].load(from);
            column += columns;
            from += step;
            if (column >= per_row) {
              column -= per_row;
              from += wrap;
            }
          }
        };
        in_batches<WholeGroup<S, V>, U>(rest, load, add_all);
      } else {
        int64_t next = group;
        const auto load = [&](WholeGroup<S, V>(&incoming)[U], int count) {
#pragma unroll
          for (int u = 0; u < U; ++u) {
            if (u >= count) continue;
            const int64_t row = row_of(next + u * lanes);
            incoming[u].load(row_data(row) +
                             column_of(next + u * lanes, row) * static_cast<int64_t>(sizeof(S)));
          }
          next += U * lanes;
        };
        in_batches<WholeGroup<S, V>, U>(rest, load, add_all);
      }
      group += rest * lanes;
    });
  }
  for (; group < end; group += lanes) {
    const int64_t row = row_of(group), column = column_of(group, row);
    // The last group of a row is moved back so that it is whole: what it has in common with the one
    // before does not count.
    const bool moves = stride == args.size && n >= V && column + V > n;
    const int64_t start = moves ? n - V : column;
    const int last = start + V <= n ? V : static_cast<int>(n - start);
    C values[V];
    load_any<C, V>(args, row_data(row) + start * stride, stride, 0, last, values);
    collector.add(values, static_cast<int>(column - start), last,
                  static_cast<uint32_t>(row * n + start - base), number);
  }
  return collector.finish(base);
}

}  // namespace iterlab::cuda
