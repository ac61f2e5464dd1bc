// Layout classes and the path: how each operand is walked, and which loop runs the plan.
#pragma once

#include "iterlab/plan.h"

namespace iterlab {

// Note [Tile sizes]
// A tile of one operand, in the compute type, is at most this large: two or three of them and the
// raw bytes that they are converted from stay in a 32 KiB first-level cache.
inline constexpr int64_t kTileBytes = 8192;

// The edge of a 2-D tile in bytes: whole cache lines of both the output and the transposed operand.
inline constexpr int64_t kTransposeEdgeBytes = 256;

// Inner dims shorter than this many elements are packed, several rows to a tile: below it, the call
// of a kernel for each row costs more than the copy.
inline constexpr int64_t kPackBelow = 64;

// Byte strides, loop shape and dtypes are known: states each operand's layout class. Moves the dim
// along which a transposed operand is fastest next to the innermost one.
void classify(Plan& plan);

// States the path with its reason, the tile, and what is staged.
void choose_path(Plan& plan);

}  // namespace iterlab
