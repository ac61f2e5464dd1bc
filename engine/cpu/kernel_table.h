// The CPU kernels of one instruction set, as a table of functions. The loops in engine/cpu call
// them; they know neither operators nor layouts beyond their arguments.
#pragma once

#include "iterlab/dtype.h"
#include "iterlab/number.h"
#include "iterlab/reduce_facts.h"

#include <cstdint>
#include <span>

namespace iterlab::cpu {

// Note [One library for each instruction set]
// Kernels are compiled once for each capability into a shared library of their own, which exports a
// single function that returns this table. An inline function of the standard library compiled with
// AVX-512 then never becomes the one that baseline code is linked to, and a library is loaded only
// on a machine that can run it.

// Runs a functor over `count` contiguous lanes of the compute type; the output's are bools where
// gives_bool says so. `data`: outputs first, then inputs. An output may be the same memory as an
// input. Parameters are converted to the compute type.
using LanesFn = void (*)(int64_t count, char* const* data, const Number* parameters);

// The dtypes that contiguous operands have in memory, outputs first, where the functor runs in
// float and converts as it loads and stores. `streamed`: results are written past the caches. Bit i
// of `repeated`: operand i is kRepeatedLanes lanes of one value, whatever the number of lanes.
struct LaneFormats {
  DType dtype[kMaxOperands];
  bool streamed;
  uint32_t repeated;
};
inline constexpr int64_t kRepeatedLanes = 64;

// Rows of contiguous lanes, `pitches` bytes apart for each operand.
struct LaneRows {
  int64_t inner, rows;
  const int64_t* pitches;
};

// Runs a functor over lanes in these formats. Streamed stores are ordered by the stage's
// stream_fence.
using ConvertingLanesFn = void (*)(const LaneRows& tile, char* const* data,
                                   const LaneFormats& formats, const Number* parameters);

// Converts `count` contiguous elements; `from` and `to` do not overlap.
using CastFn = void (*)(const char* from, char* to, int64_t count);

// Brings a tile of `rows` x `inner` elements, `inner_stride` and `row_stride` bytes apart, to
// contiguous memory (gather), or back (scatter): packed element [row][i] belongs to strided + i *
// inner_stride + row * row_stride. Nothing outside the tile's elements is read or written.
using GatherFn = void (*)(const char* strided, int64_t inner_stride, int64_t row_stride,
                          char* packed, int64_t inner, int64_t rows);
using ScatterFn = void (*)(const char* packed, char* strided, int64_t inner_stride,
                           int64_t row_stride, int64_t inner, int64_t rows);

// Writes `count` copies of one element.
using FillFn = void (*)(const char* element, char* packed, int64_t count);

// Copies `rows` packed runs of `bytes` bytes to runs `row_stride` bytes apart, with stores that
// bypass the caches: for results too large to be read back from them. Ordered by the table's
// stream_fence.
using StreamRowsFn = void (*)(const char* packed, char* to, int64_t row_stride, int64_t bytes,
                              int64_t rows);

// log2 of the element sizes 1, 2, 4, 8, 16: moves look at an element's width only.
inline constexpr int kNumWidths = 5;
constexpr int width_index(int64_t bytes) {
  return bytes == 1 ? 0 : bytes == 2 ? 1 : bytes == 4 ? 2 : bytes == 8 ? 3 : 4;
}

// The loops of one elementwise operator, by compute type; null for types that it does not compute.
// `converting`: for float, where OpInfo::converts_lanes says that there is one.
struct ElementwiseKernels {
  LanesFn by_type[kNumComputeTypes];
  ConvertingLanesFn converting;
};

// Elements that follow one another in memory, from `offset` bytes on.
struct Run {
  int64_t offset, count;
};

// The loops of one reduction for one type of elements. The state of `columns` outputs is a row:
// component by component, each contiguous. `number` is the reduction's own (a norm's order).
// Note [Same bits] in iterlab/reduce.h has the order that the loops follow together.
struct ReduceTypeKernels {
  int64_t components = 0;               // 0: elements of this type are staged in their compute type
  int64_t component_bytes[2] = {0, 0};  // of each component
  int64_t lanes = 0;                    // kLanes, or 1 where any order gives the same bits

  // inner: for each of `rows` outputs, `row_stride` bytes apart, reduces `count` contiguous
  // elements, a leaf or less from its beginning, into columns `column`... of the row.
  void (*inner)(const char* data, int64_t row_stride, int64_t rows, int64_t count, double number,
                char* row, int64_t columns, int64_t column);
  // inner, of blocks whose elements lie in several runs, each but the last a multiple of `lanes`
  // long: reduces each of `rows` outputs to a column of the row. Null for positions.
  void (*block_of_runs)(const char* data, std::span<const Run> runs, int64_t row_stride,
                        int64_t rows, double number, char* row) = nullptr;
  // outer: rows `first`... of a block join the lanes of `columns` outputs. Lanes hold each
  // component's rows, one for each lane, together.
  void (*start)(char* lanes, int64_t used, int64_t columns);
  void (*rows)(const char* data, int64_t row_stride, int64_t first, int64_t count, int64_t columns,
               double number, char* lanes);
  // `count` <= lanes rows at once, without lanes to start or fold; null where there is one lane.
  void (*few_rows)(const char* data, int64_t row_stride, int64_t count, int64_t columns,
                   double number, char* row) = nullptr;
  // short inner: columns of `count` elements, kMinDense to kMaxDense, one after another; null where
  // few_rows is.
  void (*dense_rows)(const char* data, int64_t count, int64_t columns, double number,
                     char* row) = nullptr;
  // The lanes of a block of `count` elements into one row.
  void (*fold)(char* lanes, int64_t count, int64_t columns, char* row);
  // `other` stands for `other_count` elements after the `count` of `row`.
  void (*combine)(char* row, const char* other, int64_t columns, int64_t count,
                  int64_t other_count);
  // Whether the results of all outputs are known, whatever elements follow those of `row`. Null
  // where that is never so.
  bool (*is_final)(const char* row, int64_t columns) = nullptr;
  // Null where the result is the state.
  void (*project)(const char* row, int64_t columns, int64_t reduced, double number,
                  char* const* results);
};

inline int64_t state_bytes(const ReduceTypeKernels& kernels) {
  return kernels.component_bytes[0] + (kernels.components > 1 ? kernels.component_bytes[1] : 0);
}

inline bool is_final(const ReduceTypeKernels& kernels, const char* row, int64_t columns) {
  return kernels.is_final != nullptr && kernels.is_final(row, columns);
}

// The loops of one formula, by the storage type of its elements.
struct ReduceVariant {
  ReduceTypeKernels by_type[kNumStorageTypes];
};

struct ReduceKernels {
  const ReduceVariant* variants[kMaxVariants];
};

struct StageKernels {
  CastFn cast[kNumStorageTypes][kNumStorageTypes];  // [from][to]; null on the diagonal
  GatherFn gather_rows[kNumWidths];                 // inner_stride == width
  GatherFn gather_strided[kNumWidths];              // any strides
  GatherFn gather_transposed[kNumWidths];           // row_stride == width
  ScatterFn scatter_rows[kNumWidths];
  ScatterFn scatter_strided[kNumWidths];
  ScatterFn scatter_transposed[kNumWidths];
  FillFn fill[kNumWidths];
  StreamRowsFn stream_rows;
  void (*stream_fence)();
};

// All of one capability. Operators are in the order of iterlab/ops.h.
struct KernelTable {
  const char* capability;
  StageKernels stage;
  const ElementwiseKernels* const* elementwise;
  const ReduceKernels* const* reduce;
};

const StageKernels& stage_kernels();

}  // namespace iterlab::cpu
