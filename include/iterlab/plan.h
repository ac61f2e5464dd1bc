// The plan of a call: every decision, as a plain value, made without touching data.
#pragma once

#include "iterlab/op.h"
#include "iterlab/operand.h"
#include "iterlab/shape.h"

#include <array>

namespace iterlab {

// What an operand's innermost tile looks like in memory.
enum class LayoutClass : uint8_t {
  contiguous,  // unit stride along the innermost dim
  broadcast,   // stride 0 along the innermost dim
  strided,     // another constant stride
  transposed,  // its fastest dim is not the innermost one
  rows,        // innermost dim too short for vectors: several rows are packed together
};
inline constexpr std::array kLayoutNames{"contiguous", "broadcast", "strided", "transposed",
                                         "rows"};

// Which loop runs the call.
enum class Path : uint8_t {
  vectorized,  // one flat run for all operands
  strided,     // nested dims, the innermost run vectorised after staging
  tiled,       // 2-D tiles: operands disagree on which dim is fastest
  generic,     // per-element offsets: the reference for the others
};
inline constexpr std::array kPathNames{"vectorized", "strided", "tiled", "generic"};

// Why the path was chosen.
enum class PathReason : uint8_t {
  Empty,         // no elements
  Flat,          // one dim left after coalescing, every operand contiguous or broadcast
  InnerStrided,  // `reason_operand` has a stride other than one element along the innermost dim
  NestedDims,    // dims remain that `reason_operand` keeps from coalescing
  ShortRows,     // as NestedDims, with an innermost dim so short that rows are packed
  FastestDimDiffers,  // `reason_operand` is fastest along another dim than the output
  TinyTiles,          // the two innermost dims together are too small for a tile
  Forced,             // force_path
};

// How one operand is walked. Byte strides are in iteration order, fastest dim first.
struct OperandPlan {
  DType dtype = DType::Undefined;
  LayoutClass layout = LayoutClass::contiguous;
  DType lane_dtype = DType::Undefined;  // in which the kernel finds its lanes; the compute type,
                                        // or its own where the kernel converts; of a result that
                                        // tells true from false, bool
  bool staged = false;    // goes through a buffer of `lane_dtype`; otherwise used in place
  bool streamed = false;  // an output that is written past the caches
  bool repeated = false;  // one value for all of a row: the buffer holds a block of its lanes,
                          // which the kernel reads again and again
  bool rounded = false;   // passes through the common dtype. Note [Rounded operands]
  Dims strides;
};

// The shape half: what the caller sees. One rule for real sizes (int64_t) and symbolic ones (Meta).
template <class Int>
struct BasicShapePlan {
  const OpInfo* op = nullptr;
  int num_outputs = 0;
  int num_operands = 0;
  DimsOf<Int> shape;                       // broadcast shape
  DType common_dtype = DType::Undefined;   // of the promoted inputs
  DType compute_dtype = DType::Undefined;  // what the functor runs in
  DType result_dtype = DType::Undefined;   // of outputs that the call allocates
  int promoted_by = 0;                     // input whose dtype decided the common dtype
  DimsOf<Int> output_strides;    // in elements, of outputs that the call allocates or resizes
  uint32_t resized_outputs = 0;  // bit i: given output i has to be resized
  bool same_layout =
      false;         // all operands have one shape and one dense layout: a flat run, no ordering
  Dims permutation;  // fastest dim first: loop dim i is dim permutation[i] of `shape`
};

struct Plan : BasicShapePlan<int64_t> {
  int64_t numel = 0;
  Dims loop_shape;                                 // iteration order, fastest dim first, coalesced
  std::array<OperandPlan, kMaxOperands> operands;  // outputs first
  bool may_stream = true;                          // no output is an input too
  bool converts = false;  // the kernel converts as it loads and stores, or streams
  Path path = Path::vectorized;
  PathReason reason = PathReason::Flat;
  int reason_operand = -1;
  uint8_t legal_paths = 0;  // bit i: Path i can run this plan
  int64_t tile_inner = 0;   // elements of a tile along loop dim 0
  int64_t tile_rows = 1;    // rows of a tile along loop dim 1
  int64_t bytes = 0;        // memory traffic: every distinct element read or written once
};

}  // namespace iterlab
