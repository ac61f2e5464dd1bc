// The kernel of boxes: operands whose rows are short, have a step, or lie along another dim than
// the output's.
#pragma once

#include "engine/cuda/staging.cuh"
#include "engine/cuda/vectorized.cuh"

namespace iterlab::cuda {

// Note [Boxes]
// A block takes a box of columns along loop dim 0 and rows along loop dim 1, in the output's order.
// Of every input it copies the runs of memory that hold the box's elements to shared memory, 16
// bytes at a time and without waiting for each: one run of all where they lie close together, one
// of each row, or one of each column (three planes whose pixels become neighbours). It takes its
// elements from there, at any step. Read one at a time from global memory, every element would need
// an access of its own, with few of them on the way (65 of 66 elements of each row: 0.65 of the
// rate of a copy).
// A run keeps its place between boundaries of 16 bytes, and runs are as far apart in shared memory
// as they are in global memory, modulo 16. So an element's place is linear in its column and row.

// A word of the low bytes of four.
__device__ __forceinline__ uint32_t word_of_bytes(const uint32_t* bits) {
  return __byte_perm(__byte_perm(bits[0], bits[1], 0x0040), __byte_perm(bits[2], bits[3], 0x0040),
                     0x5410);
}

// Steps from one element of an operand to the next: along a row, and from its end to the next one.
struct BoxSteps {
  int column, row, wrap;

  BoxSteps() = default;
  __device__ __forceinline__ BoxSteps(int column_step, int row_step, int columns)
      : column(column_step), row(row_step), wrap(row_step - columns * column_step) {}
};

template <class Op, class T, class In, class Out>
struct BoxRun {
  using F = Functor<Op, T>;
  static constexpr int N = F::kOperands;
  // Elements of a word of results, and words that a thread has in hand.
  static constexpr int E = sizeof(Out) < 4 ? 4 / static_cast<int>(sizeof(Out)) : 1;
  static constexpr int V = E == 4 ? kBoxWidth / 2 : kBoxWidth;
  static constexpr bool kWords = computes_words<Op, T, In, Out>;

  const typename F::RowArguments& args;
  char* const shared;
  int64_t offsets[N] = {};  // of the box's first element
  Divider by_columns;       // of this box
  int columns, rows;
  uint32_t starts[N];  // of the first element, in shared memory
  BoxSteps steps[N];

  __device__ __forceinline__ BoxRun(const typename F::RowArguments& arguments, char* bytes)
      : args(arguments), shared(bytes) {
    const uint32_t down = args.dividers[0].divide(blockIdx.x);
    const uint32_t across = blockIdx.x - down * args.dividers[0].divisor;
    const uint32_t slab = args.dividers[1].divide(down);
    const auto column = static_cast<int64_t>(across) * args.row_divider.divisor;
    const auto row = (down - slab * args.dividers[1].divisor) * args.units;
    by_columns = across + 1 == args.dividers[0].divisor ? args.slab_divider : args.row_divider;
    columns = static_cast<int>(by_columns.divisor);
    rows = static_cast<int>(min(args.sizes[1] - row, args.units));
    add_offsets(args, 2, slab, offsets);
#pragma unroll
    for (int i = 0; i < N; ++i)
      offsets[i] += column * args.strides[i][0] + row * args.strides[i][1];
    steps[0] = {static_cast<int>(args.strides[0][0]), static_cast<int>(args.strides[0][1]),
                columns};
  }

  // Copies input i's runs behind the `room` bytes of those before it; returns what is taken then.
  __device__ __forceinline__ int copy(int i, int room) {
    const KernelOperand& operand = args.operands[i];
    const int pitch = args.rooms[i];
    const bool by_row = operand.access == Access::run_of_row;
    const bool by_column = operand.access == Access::run_of_column;
    const auto column = static_cast<int>(args.strides[i][0]);
    const auto row = static_cast<int>(args.strides[i][1]);
    steps[i] = {by_column ? pitch : column, by_row ? pitch : row, columns};
    if (operand.access == Access::value) return room;
    const char* const from = operand.data + offsets[i];
    const int first = room + static_cast<int>(reinterpret_cast<uintptr_t>(from) & 15);
    starts[i] = static_cast<uint32_t>(__cvta_generic_to_shared(shared + first));
    const int runs = by_row ? rows : by_column ? columns : 1;
    const int64_t step = by_row ? args.strides[i][1] : by_column ? args.strides[i][0] : 0;
    const int length =
        (by_column ? 0 : (columns - 1) * column) + (by_row ? 0 : (rows - 1) * row) + operand.size;
    copy_runs(shared + first, from, runs, step, length, pitch);
    const int most_runs = by_row      ? static_cast<int>(args.units)
                          : by_column ? static_cast<int>(args.row_divider.divisor)
                                      : 1;
    return (room + most_runs * pitch + 15) / 16 * 16;
  }

  // A thread's word j starts at this element, `at` the first; whole ones exist.
  static __device__ __forceinline__ int word_at(int at, int j) {
    return at + j * static_cast<int>(blockDim.x) * E;
  }
  // Calls fn(j * E + e, offset) with the elements' offsets, those of a word one after the other.
  // (The first or last element of the box, where they lie outside.)
  template <bool whole, class Offset, class Fn>
  __device__ __forceinline__ void walk(const int (&column)[V], const int (&row)[V], int at, int end,
                                       Offset start, const BoxSteps& step, const Fn& fn) const {
#pragma unroll
    for (int j = 0; j < V; ++j) {
      Offset offset = start + static_cast<Offset>(row[j] * step.row + column[j] * step.column);
      int c = column[j];
#pragma unroll
      for (int e = 0; e < E; ++e) {
        fn(j * E + e, offset);
        const int element = word_at(at, j) + e;
        if (e + 1 == E || (!whole && (element < 0 || element + 1 >= end))) continue;
        offset += step.column;
        if (++c == columns) {
          c = 0;
          offset += step.wrap;
        }
      }
    }
  }

  template <bool whole, class S>
  __device__ __forceinline__ void load_bits(const int (&column)[V], const int (&row)[V], int at,
                                            int end, int i, ElementBits<S> (&bits)[V * E]) const {
    walk<whole>(column, row, at, end, starts[i], steps[i],
                [&](int n, uint32_t address) { bits[n] = load_shared<S>(address); });
  }
  template <bool whole, class S>
  __device__ __forceinline__ void load_stored(const int (&column)[V], const int (&row)[V], int at,
                                              int end, int i, T (&values)[V * E]) const {
    ElementBits<S> bits[V * E];
    load_bits<whole, S>(column, row, at, end, i, bits);
#pragma unroll
    for (int n = 0; n < V * E; ++n)
      values[n] = convert_bytes<T, S>(reinterpret_cast<const char*>(&bits[n]));
  }
  template <bool whole, size_t k>
  __device__ __forceinline__ void load(const int (&column)[V], const int (&row)[V], int at, int end,
                                       T (&values)[V * E]) const {
    using S = typename F::template Input<In, k>;
    constexpr int i = static_cast<int>(k) + 1;
    const KernelOperand& operand = args.operands[i];
    if (operand.access == Access::value) {
#pragma unroll
      for (int n = 0; n < V * E; ++n) values[n] = *reinterpret_cast<const T*>(operand.value.bytes);
    } else if constexpr (mixes_types<T, In> && std::is_same_v<S, In>) {
      with_type_of<tile_inputs<T>>(operand.type, [&](auto stored) {
        load_stored<whole, decltype(stored)>(column, row, at, end, i, values);
      });
    } else {
      load_stored<whole, S>(column, row, at, end, i, values);
    }
  }
  // The same of bytes, in words.
  template <bool whole>
  __device__ __forceinline__ void load_words(const int (&column)[V], const int (&row)[V], int at,
                                             int end, int i, uint32_t (&words)[V]) const {
    const KernelOperand& operand = args.operands[i];
    if (operand.access == Access::value) {
#pragma unroll
      for (int j = 0; j < V; ++j)
        words[j] = *reinterpret_cast<const uint8_t*>(operand.value.bytes) * 0x01010101u;
    } else {
      uint32_t bits[V * E];
      load_bits<whole, T>(column, row, at, end, i, bits);
#pragma unroll
      for (int j = 0; j < V; ++j) words[j] = word_of_bytes(bits + j * E);
    }
  }

  // Results of V words. Those narrower than a word fill words.
  template <bool whole, size_t... I>
  __device__ __forceinline__ void compute(const int (&column)[V], const int (&row)[V], int at,
                                          int end, ElementBits<Out> (&out)[V],
                                          std::index_sequence<I...>) const {
    if constexpr (kWords) {
      uint32_t in[F::kInputs][V];
      (load_words<whole>(column, row, at, end, static_cast<int>(I) + 1, in[I]), ...);
      const T parameter = *reinterpret_cast<const T*>(args.parameters.slots[0].bytes);
#pragma unroll
      for (int j = 0; j < V; ++j) out[j] = word_formula<Op, T>(parameter, in[I][j]...);
    } else {
      T in[F::kInputs][V * E];
      (load<whole, I>(column, row, at, end, in[I]), ...);
      typename F::Result results[V * E];
      F::template apply<V * E>(args.parameters, in, results);
#pragma unroll
      for (int j = 0; j < V; ++j) {
        if constexpr (E == 4) {
          uint32_t bits[E] = {};
#pragma unroll
          for (int e = 0; e < E; ++e) {
            const Out result = convert<Out>(results[j * E + e]);
            std::memcpy(&bits[e], &result, sizeof(Out));
          }
          out[j] = word_of_bytes(bits);
        } else {
          Out stored[E];
#pragma unroll
          for (int e = 0; e < E; ++e) stored[e] = convert<Out>(results[j * E + e]);
          std::memcpy(&out[j], stored, sizeof(stored));
        }
      }
    }
  }

  template <bool whole, size_t... I>
  __device__ __forceinline__ void words(int at, int end, bool stores_words, char* to,
                                        std::index_sequence<I...> inputs) const {
    int column[V], row[V];
#pragma unroll
    for (int j = 0; j < V; ++j) {
      const int element = whole ? word_at(at, j) : max(0, min(word_at(at, j), end - 1));
      row[j] = static_cast<int>(by_columns.divide(static_cast<uint32_t>(element)));
      column[j] = element - row[j] * columns;
    }
    ElementBits<Out> out[V];
    compute<whole>(column, row, at, end, out, inputs);
    if (whole && stores_words) {
#pragma unroll
      for (int j = 0; j < V; ++j) {
        char* const word = to + (row[j] * steps[0].row + column[j] * steps[0].column);
        *reinterpret_cast<ElementBits<Out>*>(word) = out[j];
      }
      return;
    }
    walk<whole>(column, row, at, end, 0, steps[0], [&](int n, int offset) {
      const int element = word_at(at, n / E) + n % E;
      if (!whole && (element < 0 || element >= end)) return;
      if constexpr (E > 1) {
        using Bits = std::conditional_t<sizeof(Out) == 1, uint8_t, uint16_t>;
        constexpr int kBits = 8 * static_cast<int>(sizeof(Out));
        *reinterpret_cast<Bits*>(to + offset) = static_cast<Bits>(out[n / E] >> n % E * kBits);
      } else {
        *reinterpret_cast<ElementBits<Out>*>(to + offset) = out[n];
      }
    });
  }

  template <size_t... I>
  __device__ __forceinline__ void run(std::index_sequence<I...> inputs) {
    int room = 0;
    ((room = copy(static_cast<int>(I) + 1, room)), ...);
    wait_for_copies();
    char* const out = args.operands[0].data + offsets[0];
    // Whether the E elements of a thread are a word of the output: the first may begin before it.
    const int misaligned = static_cast<int>(reinterpret_cast<uintptr_t>(out) & 3);
    const bool follow = steps[0].column == sizeof(Out) && steps[0].wrap == 0;
    const bool stores_words = follow || (steps[0].column == sizeof(Out) && misaligned == 0 &&
                                         columns % E == 0 && (steps[0].row & 3) == 0);
    const int before = E > 1 && follow ? misaligned / static_cast<int>(sizeof(Out)) : 0;
    const int end = rows * columns;
    const int reach = static_cast<int>(blockDim.x) * E * (V - 1) + E;
#pragma unroll 1
    for (int at = static_cast<int>(threadIdx.x) * E - before; at < end; at = word_at(at, V)) {
      if (at >= 0 && at + reach <= end) {
        words<true>(at, end, stores_words, out, inputs);
      } else {
        words<false>(at, end, stores_words, out, inputs);
      }
    }
  }
};

template <class Op, class T, class In, class Out>
__global__ void __launch_bounds__(kBlockThreads, Functor<Op, T>::kBoxBlocks)
    box_kernel(const __grid_constant__ typename Functor<Op, T>::RowArguments args) {
  extern __shared__ __align__(16) char shared_bytes[];
  let_next_start();
  BoxRun<Op, T, In, Out> box(args, shared_bytes);
  wait_for_earlier();
  box.run(std::make_index_sequence<Op::num_inputs>{});
}

}  // namespace iterlab::cuda
