// Layout classes and the path.
#include "engine/path.h"

#include "engine/plan.h"
#include "iterlab/error.h"

#include <algorithm>
#include <cstdlib>
#include <string>

namespace iterlab {
namespace {

thread_local std::optional<Path> forced;

// The dim other than 0 along which `operand` is fastest, if it is faster there than along dim 0;
// else 0.
int fastest_dim(const Plan& plan, const OperandPlan& operand) {
  int fastest = 0;
  int64_t least = std::abs(operand.strides[0]);
  for (int d = 1; d < plan.loop_shape.size(); ++d) {
    const int64_t stride = std::abs(operand.strides[d]);
    if (plan.loop_shape[d] > 1 && stride != 0 && stride < least) {
      least = stride;
      fastest = d;
    }
  }
  return fastest;
}

void move_dim_next_to_innermost(Plan& plan, int dim) {
  const auto rotate = [dim](Dims& dims) {
    std::rotate(dims.begin() + 1, dims.begin() + dim, dims.begin() + dim + 1);
  };
  rotate(plan.loop_shape);
  for (int i = 0; i < plan.num_operands; ++i) rotate(plan.operands[static_cast<size_t>(i)].strides);
}

// Two innermost dims of few elements make tiles that take longer to start than to run: the longest
// dim takes the place of the second.
void lengthen_tiny_tiles(Plan& plan) {
  const Dims& shape = plan.loop_shape;
  if (shape.size() <= 2 || shape[0] * shape[1] >= kTinyTile) return;
  const auto longest = std::max_element(shape.begin() + 1, shape.end());
  move_dim_next_to_innermost(plan, static_cast<int>(longest - shape.begin()));
}

int64_t traffic(const Plan& plan, const OperandPlan& operand) {
  int64_t bytes = element_size(operand.dtype);
  for (int d = 0; d < plan.loop_shape.size(); ++d) {
    if (operand.strides[d] != 0) bytes *= plan.loop_shape[d];
  }
  return bytes;
}

void set_path(Plan& plan, Path path, PathReason reason, int operand) {
  plan.path = path;
  plan.reason = reason;
  plan.reason_operand = operand;
}

// The first operand that is not simply contiguous over the two innermost dims: what keeps the plan
// from being flat.
int first_not_flat(const Plan& plan) {
  for (int i = 0; i < plan.num_operands; ++i) {
    const auto& strides = plan.operands[static_cast<size_t>(i)].strides;
    for (int d = 0; d + 1 < strides.size(); ++d) {
      if (strides[d] * plan.loop_shape[d] != strides[d + 1]) return i;
    }
  }
  return plan.num_operands - 1;
}

int first_of_class(const Plan& plan, LayoutClass layout) {
  for (int i = 0; i < plan.num_operands; ++i) {
    if (plan.operands[static_cast<size_t>(i)].layout == layout) return i;
  }
  return -1;
}

void choose_tile(Plan& plan) {
  const int64_t widest = widest_element(plan);
  const int64_t most = kTileBytes / widest, of_rows = kRowTileBytes / widest,
                largest = kTransposedTileBytes / widest;
  const int64_t inner = plan.loop_shape.empty() ? 1 : plan.loop_shape[0];
  const int64_t rows = plan.loop_shape.size() < 2 ? 1 : plan.loop_shape[1];
  plan.tile_rows = 1;
  switch (plan.path) {
    case Path::vectorized:
    case Path::generic:
      plan.tile_inner = most;
      break;
    case Path::strided:
      plan.tile_inner = std::min(inner, of_rows);
      plan.tile_rows = std::clamp<int64_t>(of_rows / plan.tile_inner, 1, rows);
      // Whole cache lines, of which a streamed output has no halves then: a sum with rows of 3 and
      // 7 floats of 4 and 8 took 1.8 times as long.
      if (plan.tile_rows > 64) plan.tile_rows -= plan.tile_rows % 64;
      break;
    case Path::tiled: {
      TransposedTile tile = transposed_tile(widest);
      if (reads_along_inner(plan)) std::swap(tile.inner, tile.rows);
      plan.tile_inner = std::min(inner, tile.inner);
      // A side shorter than the tile's leaves room for more of the other.
      plan.tile_rows = std::min(rows, largest / plan.tile_inner);
      if (plan.tile_inner == tile.inner) plan.tile_rows = std::min(plan.tile_rows, tile.rows);
      if (plan.tile_rows < tile.rows && plan.tile_inner < inner) {
        plan.tile_inner = std::min(inner, largest / plan.tile_rows);
      }
      break;
    }
  }
}

// Note [Short rows]
bool has_short_rows(const Plan& plan) {
  const int64_t inner = plan.loop_shape[0];
  if (inner >= kPackBelow) return false;
  if (plan.op->moves_bits || plan.op->cost > 1) return true;
  int64_t narrowest = element_size(plan.compute_dtype);
  for (int i = 0; i < plan.num_operands; ++i)
    narrowest = std::min(narrowest, element_size(plan.operands[static_cast<size_t>(i)].dtype));
  const bool is_wide = narrowest >= 4 && plan.compute_dtype != DType::Float;
  return inner * narrowest < (is_wide ? kPackWideBelowBytes : kPackFloatsBelowBytes);
}

// Whether several short rows make one run of lanes.
bool packs_rows(const Plan& plan) {
  return plan.path == Path::strided && plan.tile_rows > 1 && has_short_rows(plan);
}

// In place if the kernel reads its dtype and its stride is one element, row by row; a packed tile
// is one run, so there it must be flat.
bool must_stage(const Plan& plan, const OperandPlan& operand) {
  if (plan.path == Path::generic || operand.dtype != operand.lane_dtype || operand.rounded)
    return true;
  const int64_t element = element_size(operand.dtype);
  if (plan.loop_shape.empty()) return false;
  if (operand.strides[0] != element && plan.loop_shape[0] != 1) return true;
  return packs_rows(plan) && operand.strides[1] != element * plan.loop_shape[0];
}

// Past the caches, if it is too large for them and its tiles are whole cache lines: of a line that
// is written in part, memory reads the rest.
bool is_streamed(const Plan& plan, const OperandPlan& operand) {
  const int64_t element = element_size(operand.dtype);
  if (!plan.may_stream || plan.path == Path::generic || operand.strides[0] != element ||
      traffic(plan, operand) < kStreamFromBytes)
    return false;
  return plan.path != Path::tiled ||
         (operand.strides[1] % 64 == 0 && plan.tile_inner * element % 64 == 0);
}

// Whether the converting kernel can run the plan.
bool runs_in_float(const Plan& plan) {
  return plan.op->converts_lanes &&
         (plan.converts || (plan.compute_dtype == DType::Float && !plan.op->moves_bits));
}

// Whether the kernel itself can write past the caches.
bool streams_in_kernel(const Plan& plan, const OperandPlan& operand) {
  return runs_in_float(plan) && operand.dtype == operand.lane_dtype && operand.dtype != DType::Bool;
}

bool is_repeated(const Plan& plan, const OperandPlan& operand) {
  return operand.staged && operand.layout == LayoutClass::broadcast && !packs_rows(plan) &&
         (plan.path == Path::vectorized || plan.path == Path::strided) && runs_in_float(plan);
}

// Where no operand has a whole tile in a buffer, tiles need not fit one: larger ones are fewer.
void enlarge_tile(Plan& plan) {
  if (plan.path != Path::strided || packs_rows(plan) || plan.loop_shape.size() < 2) return;
  for (int i = 0; i < plan.num_operands; ++i) {
    const OperandPlan& operand = plan.operands[static_cast<size_t>(i)];
    if (operand.staged && !operand.repeated) return;
  }
  plan.tile_inner = std::min(plan.loop_shape[0], kInPlaceRunBytes / widest_element(plan));
  const int64_t rows = kInPlaceTileBytes / widest_element(plan) / plan.tile_inner;
  plan.tile_rows = std::max(plan.tile_rows, std::min({rows, plan.loop_shape[1], kInPlaceTileRows}));
}

// Whether it pays to stage an output for no other reason than to stream it: not where the operands
// follow each other in memory (int8: 0.88 of a plain add, 1.03 with ordinary stores).
bool streams_by_staging(const Plan& plan) {
  return plan.path == Path::tiled || plan.op->moves_bits;
}

// Whether an operator that moves one input converts it between dtypes that a kernel in float reads
// and writes.
bool casts_by_way_of_float(const Plan& plan) {
  const DType from = plan.operands[static_cast<size_t>(moved_operand(plan))].dtype;
  const DType to = plan.operands[0].dtype;
  return from != to && to == plan.compute_dtype && (from == DType::Float || kernel_reads(from)) &&
         (to == DType::Float || kernel_writes(to));
}

}  // namespace

bool reads_along_inner(const Plan& plan) {
  for (int i = plan.num_outputs; i < plan.num_operands; ++i) {
    if (plan.operands[static_cast<size_t>(i)].layout == LayoutClass::contiguous) return true;
  }
  return false;
}

std::optional<Path> forced_path() { return forced; }
void set_forced_path(std::optional<Path> path) { forced = path; }

void classify(Plan& plan) {
  const int ndim = plan.loop_shape.size();
  plan.bytes = 0;
  int tile_dim = 0;
  for (int i = 0; i < plan.num_operands; ++i) {
    auto& operand = plan.operands[static_cast<size_t>(i)];
    plan.bytes += traffic(plan, operand);
    const int64_t element = element_size(operand.dtype);
    if (ndim == 0 || operand.strides[0] == element) {
      operand.layout = LayoutClass::contiguous;
    } else if (operand.strides[0] == 0) {
      operand.layout = LayoutClass::broadcast;
    } else if (const int fastest = fastest_dim(plan, operand);
               fastest != 0 && plan.loop_shape[0] > 1) {
      operand.layout = LayoutClass::transposed;
      if (tile_dim == 0) tile_dim = fastest;
    } else {
      operand.layout = LayoutClass::strided;
    }
  }
  if (tile_dim > 1) move_dim_next_to_innermost(plan, tile_dim);
  lengthen_tiny_tiles(plan);
  if (ndim > 1 && tile_dim == 0 && has_short_rows(plan)) {
    for (int i = 0; i < plan.num_operands; ++i) {
      auto& operand = plan.operands[static_cast<size_t>(i)];
      const bool flat = operand.strides[1] == operand.strides[0] * plan.loop_shape[0];
      if (operand.layout == LayoutClass::contiguous && !flat) operand.layout = LayoutClass::rows;
    }
  }
}

void choose_path(Plan& plan) {
  const int ndim = plan.loop_shape.size();
  const int transposed = first_of_class(plan, LayoutClass::transposed);
  const int strided = first_of_class(plan, LayoutClass::strided);
  const bool flat = ndim <= 1 && strided < 0;
  plan.legal_paths = static_cast<uint8_t>(path_bit(Path::strided) | path_bit(Path::generic));
  if (flat) plan.legal_paths |= path_bit(Path::vectorized);
  if (ndim > 1) plan.legal_paths |= path_bit(Path::tiled);
  if (plan.numel == 0) {
    set_path(plan, Path::vectorized, PathReason::Empty, -1);
    plan.legal_paths = 0xf;
  } else if (flat) {
    set_path(plan, Path::vectorized, PathReason::Flat, -1);
  } else if (ndim > 2 && plan.loop_shape[0] * plan.loop_shape[1] < kTinyTile / 2) {
    set_path(plan, Path::generic, PathReason::TinyTiles, first_not_flat(plan));
  } else if (transposed >= 0) {
    set_path(plan, Path::tiled, PathReason::FastestDimDiffers, transposed);
  } else if (ndim > 1 && has_short_rows(plan)) {
    set_path(plan, Path::strided, PathReason::ShortRows, first_not_flat(plan));
  } else if (strided >= 0) {
    set_path(plan, Path::strided, PathReason::InnerStrided, strided);
  } else {
    set_path(plan, Path::strided, PathReason::NestedDims, first_not_flat(plan));
  }
  if (forced && *forced != plan.path && plan.numel != 0) {
    if ((plan.legal_paths & path_bit(*forced)) == 0) {
      const auto name = [](Path path) {
        return std::string(kPathNames[static_cast<size_t>(path)]);
      };
      throw PlanError(PlanError::Kind::Runtime, *plan.op,
                      "expected a call that path " + name(*forced) +
                          " can run, got one that needs path " + name(plan.path));
    }
    set_path(plan, *forced, PathReason::Forced, -1);
  }
  choose_lane_dtypes(plan);
  choose_tile(plan);
  for (int i = 0; i < plan.num_operands; ++i) {
    auto& operand = plan.operands[static_cast<size_t>(i)];
    operand.staged = must_stage(plan, operand);
    operand.repeated = i >= plan.num_outputs && is_repeated(plan, operand);
    plan.converts = plan.converts || operand.repeated;
    operand.streamed = i < plan.num_outputs && is_streamed(plan, operand);
    if (!operand.streamed || operand.staged) continue;
    if (streams_in_kernel(plan, operand)) {
      plan.converts = true;
    } else {
      operand.streamed = operand.staged = streams_by_staging(plan);
    }
  }
  enlarge_tile(plan);
}

int64_t widest_element(const Plan& plan) {
  int64_t widest = 1;
  for (int i = 0; i < plan.num_operands; ++i) {
    const OperandPlan& operand = plan.operands[static_cast<size_t>(i)];
    widest = std::max({widest, element_size(operand.dtype), element_size(operand.lane_dtype)});
  }
  return widest;
}

void choose_lane_dtypes(Plan& plan) {
  const bool may_convert =
      plan.op->converts_lanes && plan.path != Path::generic &&
      (plan.op->moves_bits ? casts_by_way_of_float(plan) : plan.compute_dtype == DType::Float);
  const DType lanes = may_convert ? DType::Float : plan.compute_dtype;
  const bool truth = gives_bool(plan.op->promotion);
  for (int i = 0; i < plan.num_operands; ++i) {
    OperandPlan& operand = plan.operands[static_cast<size_t>(i)];
    // One value is converted once, when its buffer is filled.
    const bool converts =
        may_convert && operand.layout != LayoutClass::broadcast && !operand.rounded &&
        (i < plan.num_outputs ? kernel_writes(operand.dtype) : kernel_reads(operand.dtype));
    operand.lane_dtype = i < plan.num_outputs && truth ? DType::Bool
                         : converts                    ? operand.dtype
                                                       : lanes;
    plan.converts = plan.converts || converts;
  }
}

}  // namespace iterlab
