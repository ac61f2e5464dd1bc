// The CPU kernels of one instruction set, as a table of functions. The loops in engine/cpu call
// them; they know neither operators nor layouts beyond their arguments.
#pragma once

#include "iterlab/dtype.h"
#include "iterlab/number.h"

#include <cstdint>

namespace iterlab::cpu {

// Note [One library for each instruction set]
// Kernels are compiled once for each capability into a shared library of their own, which exports a
// single function that returns this table. An inline function of the standard library compiled with
// AVX-512 then never becomes the one that baseline code is linked to, and a library is loaded only
// on a machine that can run it.

// Runs a functor over `count` contiguous lanes of the compute type. `data`: outputs first, then
// inputs. An output may be the same memory as an input. Parameters are converted to the compute
// type.
using LanesFn = void (*)(int64_t count, char* const* data, const Number* parameters);

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
struct ElementwiseKernels {
  LanesFn by_type[kNumComputeTypes];
};

// The loops of one reduction for one accumulate type. Data is contiguous and of that type;
// "accumulators" too. Note [Same bits] in iterlab/reduce.h has the order that they follow together.
struct ReduceTypeKernels {
  void (*identity)(char* accumulators, int64_t count);
  void (*combine)(char* accumulators, const char* others, int64_t count);
  void (*block)(const char* data, int64_t count, char* accumulator);
  void (*rows)(const char* data, int64_t row_stride, int64_t first, int64_t count, int64_t columns,
               char* lanes);
  void (*fold_rows)(char* lanes, int64_t used, int64_t columns);
  void (*project)(char* accumulators, int64_t count, int64_t reduced);
};

struct ReduceKernels {
  ReduceTypeKernels by_type[kNumComputeTypes];
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
