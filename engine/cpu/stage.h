// Staging: brings a tile of an operand to the compute type and unit stride, and a tile of results
// back.
#pragma once

#include "engine/cpu/kernel_table.h"
#include "engine/path.h"

namespace iterlab::cpu {

// A tile of one operand in memory: `rows` x `inner` elements of `dtype`, strides in bytes.
struct Tile {
  char* data;
  int64_t inner_stride;
  int64_t row_stride;
  int64_t inner;
  int64_t rows;

  bool operator==(const Tile&) const = default;
};

// Note [Prefetch]
// A tile is staged in a burst, then computed on for as long; left alone, the memory is idle in
// between and every burst starts anew. The lines of the next tile are asked for before the formula
// runs: into the first-level cache where it has room for them beside this tile's. GCC drops calls
// of a function that does nothing but prefetch; the empty statement keeps them.
inline void prefetch(Tile tile, int64_t element) {
  asm volatile("");
  if (tile.inner_stride == 0) tile.inner = 1;
  if (tile.row_stride == 0) tile.rows = 1;
  const bool fits = tile.inner * tile.rows * element <= kRowTileBytes;
  const auto ask = [&](const char* line) {
    fits ? __builtin_prefetch(line) : __builtin_prefetch(line, 0, 2);
  };
  const bool along_rows =
      tile.inner_stride != element && tile.row_stride == element && tile.rows > 1;
  const int64_t lines = along_rows ? tile.inner : tile.rows;
  const int64_t pitch = along_rows ? tile.inner_stride : tile.row_stride;
  const int64_t bytes = along_rows ? tile.rows * element : tile.inner * tile.inner_stride;
  if (!along_rows && tile.inner_stride > 64) return;
  if (pitch > 0 && pitch <= 64) {  // short rows: one span
    for (int64_t b = 0; b < lines * pitch; b += 64) ask(tile.data + b);
    return;
  }
  for (int64_t line = 0; line < lines; ++line) {
    for (int64_t b = 0; b < bytes; b += 64) ask(tile.data + line * pitch + b);
  }
}

// Rows of one value each, at least this many bytes long, are filled one by one; shorter ones are
// transposed.
inline constexpr int64_t kFillRowFrom = 64;

inline bool fills_rows(const Tile& tile, int64_t element) {
  return tile.inner_stride == 0 && tile.inner * element >= kFillRowFrom;
}

// The kernel for a tile's layout.
inline GatherFn gather_for(const StageKernels& stage, const Tile& tile, int64_t element) {
  const int width = width_index(element);
  if (tile.inner_stride == element) return stage.gather_rows[width];
  if (fills_rows(tile, element)) return stage.gather_strided[width];
  if (tile.row_stride == element && tile.rows > 1) return stage.gather_transposed[width];
  return stage.gather_strided[width];
}

inline ScatterFn scatter_for(const StageKernels& stage, const Tile& tile, int64_t element) {
  const int width = width_index(element);
  if (tile.inner_stride == element) return stage.scatter_rows[width];
  if (tile.row_stride == element && tile.rows > 1) return stage.scatter_transposed[width];
  return stage.scatter_strided[width];
}

// Rows at least this long are converted straight from or to memory; shorter ones are packed first,
// so that one call converts the whole tile.
inline constexpr int64_t kCastRowFrom = 64;

// Fills `lanes` with the tile, packed, converted from dtype `from` to `to`. `raw` is scratch for
// the tile in `from`.
inline void stage_in(const StageKernels& stage, const Tile& tile, DType from, DType to, char* lanes,
                     char* raw) {
  const int64_t element = element_size(from), lane = element_size(to);
  const CastFn cast = stage.cast[type_index(from)][type_index(to)];
  const int64_t count = tile.inner * tile.rows;
  if (tile.inner_stride == 0 && (tile.row_stride == 0 || tile.rows == 1)) {
    const char* value = tile.data;
    if (cast != nullptr) {
      cast(tile.data, raw, 1);
      value = raw;
    }
    stage.fill[width_index(lane)](value, lanes, count);
  } else if (cast != nullptr && fills_rows(tile, lane)) {
    // The value of each row first; the rows from the last, which are written behind the values.
    stage_in(stage, {tile.data, tile.row_stride, 0, tile.rows, 1}, from, to, lanes, raw);
    for (int64_t r = tile.rows - 1; r >= 0; --r)
      stage.fill[width_index(lane)](lanes + r * lane, lanes + r * tile.inner * lane, tile.inner);
  } else if (cast == nullptr) {
    gather_for(stage, tile, element)(tile.data, tile.inner_stride, tile.row_stride, lanes,
                                     tile.inner, tile.rows);
  } else if (tile.inner_stride == element && (tile.inner >= kCastRowFrom || tile.rows == 1)) {
    for (int64_t r = 0; r < tile.rows; ++r) {
      cast(tile.data + r * tile.row_stride, lanes + r * tile.inner * lane, tile.inner);
    }
  } else {
    gather_for(stage, tile, element)(tile.data, tile.inner_stride, tile.row_stride, raw, tile.inner,
                                     tile.rows);
    cast(raw, lanes, count);
  }
}

// Writes `lanes`, a packed tile of dtype `from`, to memory in dtype `to`. `raw` is scratch for the
// tile in `to`. `streamed`: past the caches, where the rows are whole cache lines.
inline void stage_out(const StageKernels& stage, const Tile& tile, DType from, DType to,
                      const char* lanes, char* raw, bool streamed) {
  const int64_t element = element_size(to), lane = element_size(from);
  const CastFn cast = stage.cast[type_index(from)][type_index(to)];
  const bool lines =
      tile.rows == 1 || (tile.row_stride % 64 == 0 && tile.inner * element % 64 == 0);
  streamed = streamed && lines;
  if (!streamed && cast != nullptr && tile.inner_stride == element &&
      (tile.inner >= kCastRowFrom || tile.rows == 1)) {
    for (int64_t r = 0; r < tile.rows; ++r) {
      cast(lanes + r * tile.inner * lane, tile.data + r * tile.row_stride, tile.inner);
    }
    return;
  }
  const char* packed = lanes;
  if (cast != nullptr) {
    cast(lanes, raw, tile.inner * tile.rows);
    packed = raw;
  }
  if (streamed) {
    stage.stream_rows(packed, tile.data, tile.row_stride, tile.inner * element, tile.rows);
  } else {
    scatter_for(stage, tile, element)(packed, tile.data, tile.inner_stride, tile.row_stride,
                                      tile.inner, tile.rows);
  }
}

}  // namespace iterlab::cpu
