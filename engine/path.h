// Layout classes and the path: how each operand is walked, and which loop runs the plan.
#pragma once

#include "iterlab/plan.h"

namespace iterlab {

// Note [Tile sizes]
// A tile of one operand, in the compute type, is at most this large: two or three of them and the
// raw bytes that they are converted from stay in a 32 KiB first-level cache. Tiles of rows are
// smaller: the next one of what is read, and what is written, share the cache with them (of 16 KiB,
// strided, column and packed rows of 64 MiB operands took 1.1 to 1.4 times as long). Transposed
// ones have a note of their own.
inline constexpr int64_t kTileBytes = 8192, kRowTileBytes = 4096, kTransposedTileBytes = 65536;

// Rows that are used in place need no buffer but for a block of a broadcast operand's lanes for
// each row, so that a tile is what pays for starting it (0.1 us).
inline constexpr int64_t kInPlaceTileBytes = 128 * 1024, kInPlaceTileRows = 128;
inline constexpr int64_t kInPlaceRunBytes = 16 * 1024;  // of a row

// Note [Transposed tiles]
// Tiles of the path `tiled`, inner x rows, by the width of the widest element. Rows follow the dim
// along which the transposed operand is contiguous, and tiles are walked along it first. Where an
// input is contiguous along inner, both are turned: a tile is long in inner, and walked along it. A
// tile is as large as a part of the second-level cache, so that no operand's pages are visited for
// a line or two: to find a page of 4 KiB takes longer than to read 128 bytes of it. Milliseconds of
// x + y.t(), 4096x4096, on a Sapphire Rapids core, with tiles of the first-level cache and with
// these: float32 25 and 20, bfloat16 27 and 17, int8 22 and 9.
struct TransposedTile {
  int64_t inner, rows;
};
constexpr TransposedTile transposed_tile(int64_t width) {
  return width == 1   ? TransposedTile{128, 512}
         : width == 2 ? TransposedTile{64, 512}
         : width == 4 ? TransposedTile{64, 256}
         : width == 8 ? TransposedTile{32, 256}
                      : TransposedTile{32, 128};
}

// Note [Streaming stores]
// An output at least this large is written past the caches: it would not stay in them, and an
// ordinary store first reads the line that it overwrites.
inline constexpr int64_t kStreamFromBytes = int64_t{32} << 20;

// Note [Plain operands]
inline constexpr int64_t kPlainBelow = kStreamFromBytes / 16;  // elements, of any width

// Which dtypes a kernel in float reads and writes besides its own: Note [Lane formats] in
// engine/cpu/lane_formats.h.
constexpr bool kernel_reads(DType dtype) {
  return dtype == DType::BFloat16 || dtype == DType::Half || dtype == DType::Char ||
         dtype == DType::Byte || dtype == DType::Int;
}
constexpr bool kernel_writes(DType dtype) {
  return dtype == DType::BFloat16 || dtype == DType::Half || dtype == DType::Bool;
}

// The bit of a path in Plan::legal_paths.
constexpr uint8_t path_bit(Path path) {
  return static_cast<uint8_t>(1u << static_cast<unsigned>(path));
}

// Note [Short rows]
// Rows of fewer elements than kPackBelow are packed, several to a tile: the call of a kernel for
// each row would cost more than the copy, and of narrow elements, which end in a tail of single
// ones, much more. Where the elements are wide and the formula is cheap, a row need not be as long
// as that, but two vectors (of floats, whose kernel has more to set up) or one: int32 and float64
// rows of 16 to 63 elements, packed, took 1.3 to 1.9 times as long.
inline constexpr int64_t kPackBelow = 64;
inline constexpr int64_t kPackFloatsBelowBytes = 128, kPackWideBelowBytes = 64;

// Tiles of fewer elements are made longer, and where they have less than half as many, elements are
// taken by their offsets: to start a tile takes as long as 12 of those.
inline constexpr int64_t kTinyTile = 32;

// Whether some input is contiguous along the innermost dim, as the output is.
bool reads_along_inner(const Plan& plan);

// Byte strides, loop shape and dtypes are known: states each operand's layout class. Moves the dim
// along which a transposed operand is fastest next to the innermost one.
void classify(Plan& plan);

// States the path with its reason, the tile, and what is staged.
void choose_path(Plan& plan);

// The operand whose lanes are the result, of an operator that moves one input, which is its last;
// else -1. Note [Which operators convert lanes]
constexpr int moved_operand(const Plan& plan) {
  return plan.op->moves_bits && plan.op->converts_lanes ? plan.num_operands - 1 : -1;
}

// Bytes of the largest element in memory or in a tile.
int64_t widest_element(const Plan& plan);

// States in which dtype the kernel finds the lanes of each operand. The path and the layouts are
// known.
void choose_lane_dtypes(Plan& plan);

}  // namespace iterlab
