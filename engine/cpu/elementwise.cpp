// The CPU loops of elementwise plans: flat, tiles, and per-element offsets.
#include "engine/cpu/elementwise.h"

#include "engine/cpu/share.h"
#include "engine/cpu/stage.h"

#include <algorithm>
#include <cstring>
#include <memory>

namespace iterlab::cpu {
namespace {

// One operand's buffers: `lanes` holds a tile in the compute type, `raw` one in the storage type.
// Not a multiple of 4096 bytes, so that loads from one buffer do not seem to depend on stores to
// the next (low address bits are compared first).
struct StageBuffer {
  alignas(64) char lanes[kTransposedTileBytes + 320];
  alignas(64) char raw[kTransposedTileBytes + 320];
};

// A thread's buffers, kept between calls: together 1 MiB, more than some threads' stacks, of which
// a call touches what its tiles fill.
StageBuffer* stage_buffers() {
  static thread_local const auto buffers =
      std::make_unique_for_overwrite<StageBuffer[]>(kMaxOperands);
  return buffers.get();
}

struct Call {
  const Plan& plan;
  const StageKernels& stage;
  char* const* data;
  const Number* parameters;
  LaneKernel kernel;
};

// Operators that move bits run on the unsigned type of the element's width.
int kernel_type(const Plan& plan) {
  if (!plan.op->moves_bits) return compute_index(plan.compute_dtype);
  constexpr DType by_width[kNumWidths] = {DType::Byte, DType::UInt16, DType::UInt32, DType::UInt64,
                                          DType::ComplexDouble};
  return compute_index(by_width[width_index(element_size(plan.compute_dtype))]);
}

// A packed tile of `lanes`, rounded to the common dtype: Note [Rounded operands]. `raw` is scratch.
void round_lanes(const Call& call, char* lanes, char* raw, int64_t count) {
  const int common = type_index(call.plan.common_dtype);
  const int compute = type_index(call.plan.compute_dtype);
  call.stage.cast[compute][common](lanes, raw, count);
  call.stage.cast[common][compute](raw, lanes, count);
}

template <class Body>
void for_pieces(const Plan& plan, const Parallel& parallel, int64_t count, const Body& body) {
  share(parallel, count, static_cast<double>(plan.bytes) * plan.op->cost, body);
}

// Every operand is used in place: one call of the kernel for each thread.
void run_flat(const Call& call, const Parallel& parallel) {
  const Plan& plan = call.plan;
  for_pieces(plan, parallel, plan.numel, [&](int64_t begin, int64_t end) {
    char* pointers[kMaxOperands];
    for (int i = 0; i < plan.num_operands; ++i) {
      pointers[i] =
          call.data[i] + begin * element_size(plan.operands[static_cast<size_t>(i)].dtype);
    }
    call.kernel(end - begin, pointers, call.parameters);
    if (call.kernel.formats.streamed) call.stage.stream_fence();
  });
}

// Walks the tiles of a plan in order, from the first: along the innermost dim first, or along the
// rows where the path is tiled. Note [Transposed tiles]
class TileWalk {
 public:
  explicit TileWalk(const Plan& plan) : plan_(plan), ndim_(std::max(2, plan.loop_shape.size())) {
    if (plan.path == Path::tiled && !reads_along_inner(plan)) std::swap(order_[0], order_[1]);
    for (int d = 0; d < ndim_; ++d) {
      const int64_t size = d < plan.loop_shape.size() ? plan.loop_shape[d] : 1;
      step_[d] = d == 0 ? plan.tile_inner : d == 1 ? plan.tile_rows : 1;
      // Small calls are one tile, and divisions show in them.
      tiles_[d] = size <= step_[d] ? 1 : (size + step_[d] - 1) / step_[d];
      total_ *= tiles_[d];
      index_[d] = 0;
    }
  }

  int64_t total() const { return total_; }

  void seek(int64_t tile) {
    for (int i = 0; i < ndim_; ++i) {
      const int d = dim(i);
      index_[d] = 0;
      if (tiles_[d] == 1) continue;
      index_[d] = tile % tiles_[d] * step_[d];
      tile /= tiles_[d];
    }
  }

  void next() {
    for (int i = 0; i < ndim_; ++i) {
      const int d = dim(i);
      index_[d] += step_[d];
      if (index_[d] < tiles_[d] * step_[d]) return;
      index_[d] = 0;
    }
  }

  Tile tile_of(int operand, char* base) const {
    const Dims& strides = plan_.operands[static_cast<size_t>(operand)].strides;
    const Dims& shape = plan_.loop_shape;
    const int ndim = shape.size();
    Tile tile{base, 0, 0, 1, 1};
    for (int d = 0; d < ndim; ++d) tile.data += index_[d] * strides[d];
    if (ndim > 0) {
      tile.inner = std::min(step_[0], shape[0] - index_[0]);
      tile.inner_stride = strides[0];
    }
    if (ndim > 1) {
      tile.rows = std::min(step_[1], shape[1] - index_[1]);
      tile.row_stride = strides[1];
    }
    return tile;
  }

  // The tile of the same shape one step further.
  Tile following(Tile tile, int operand) const {
    const int d = order_[0];
    if (d < plan_.loop_shape.size())
      tile.data += step_[d] * plan_.operands[static_cast<size_t>(operand)].strides[d];
    return tile;
  }

 private:
  int dim(int i) const { return i < 2 ? order_[i] : i; }

  const Plan& plan_;
  int ndim_;
  int order_[2] = {0, 1};
  int64_t total_ = 1;
  int64_t step_[kMaxDims], tiles_[kMaxDims], index_[kMaxDims];
};

// One tile: stage inputs, run the functor, stage outputs. Keeps staged inputs that the next tile
// shares (broadcasts).
class TileRunner {
 public:
  explicit TileRunner(const Call& call)
      : call_(call),
        unread_(call.plan.op->unread_inputs << call.plan.num_outputs),
        moved_(call.plan.converts ? -1 : moved_operand(call.plan)) {
    for (int i = 0; i < call.plan.num_operands; ++i) staged_[i] = {nullptr, 0, 0, 0, 0};
  }

  void run(const TileWalk& walk) {
    const Plan& plan = call_.plan;
    char* pointers[kMaxOperands];
    int64_t pitches[kMaxOperands];
    Tile tiles[kMaxOperands];
    bool flat = true;
    for (int i = 0; i < plan.num_operands; ++i) {
      const OperandPlan& operand = plan.operands[static_cast<size_t>(i)];
      const Tile tile = tiles[i] = walk.tile_of(i, call_.data[i]);
      pointers[i] = operand.staged ? buffers_[i].lanes : tile.data;
      const int64_t row = tile.inner * element_size(operand.lane_dtype);
      pitches[i] = operand.staged && !operand.repeated ? row : tile.row_stride;
      if (operand.repeated && pitches[i] != 0)
        pitches[i] = kRepeatedLanes * element_size(operand.lane_dtype);
      const bool one_run = pitches[i] == (operand.repeated ? 0 : row);
      flat = flat && (tile.rows == 1 || one_run || !reads(i));
    }
    const bool moved = flat && share_lanes(pointers);
    for (int i = plan.num_outputs; i < plan.num_operands; ++i) {
      const OperandPlan& operand = plan.operands[static_cast<size_t>(i)];
      if (!reads(i) || tiles[i] == staged_[i]) continue;
      if (walk.total() > 1 && (operand.staged || plan.path == Path::tiled)) {
        prefetch(walk.following(tiles[i], i), element_size(operand.dtype));
      }
      if (operand.staged) {
        Tile tile = tiles[i];
        if (operand.repeated) {
          tile.inner = kRepeatedLanes;
          if (tile.row_stride == 0) tile.rows = 1;
        }
        stage_in(call_.stage, tile, operand.dtype, operand.lane_dtype, pointers[i],
                 buffers_[i].raw);
        if (operand.rounded)
          round_lanes(call_, pointers[i], buffers_[i].raw, tile.inner * tile.rows);
        if (pointers[i] == buffers_[i].lanes) staged_[i] = tiles[i];
      }
    }
    if (!moved) {
      const Tile& tile = tiles[0];
      call_.kernel(flat ? LaneRows{tile.inner * tile.rows, 1, pitches}
                        : LaneRows{tile.inner, tile.rows, pitches},
                   pointers, call_.parameters);
    }
    for (int i = 0; i < plan.num_outputs; ++i) {
      const OperandPlan& operand = plan.operands[static_cast<size_t>(i)];
      if (operand.rounded)
        round_lanes(call_, pointers[i], buffers_[i].raw, tiles[i].inner * tiles[i].rows);
      if (operand.staged)
        stage_out(call_.stage, tiles[i], operand.lane_dtype, operand.dtype, pointers[i],
                  buffers_[i].raw, operand.streamed);
    }
  }

 private:
  // Outputs too have lanes.
  bool reads(int operand) const { return (unread_ >> operand & 1u) == 0; }

  // Where the result is an input's lanes and one of the two is staged, both are the same memory:
  // the input is staged where the output lies, or the output written from where the input lies.
  // True if there is nothing left to compute.
  bool share_lanes(char** pointers) const {
    if (moved_ < 0) return false;
    const bool into_output = !call_.plan.operands[0].staged;
    const bool input_staged = call_.plan.operands[static_cast<size_t>(moved_)].staged;
    if (into_output && !input_staged) return false;
    if (into_output) {
      pointers[moved_] = pointers[0];
    } else {
      pointers[0] = pointers[moved_];
    }
    return true;
  }

  const Call& call_;
  uint32_t unread_;            // bit i: operand i is not read
  int moved_;                  // the operand whose lanes are the result, or -1
  Tile staged_[kMaxOperands];  // what each input's buffer holds
  StageBuffer* const buffers_ = stage_buffers();
};

void run_tiles(const Call& call, const Parallel& parallel) {
  const TileWalk whole(call.plan);
  const bool streams = call.plan.operands[0].streamed;
  // Small calls are one tile.
  if (whole.total() == 1 && !streams) return TileRunner(call).run(whole);
  for_pieces(call.plan, parallel, whole.total(), [&](int64_t begin, int64_t end) {
    TileWalk walk(call.plan);
    TileRunner runner(call);
    walk.seek(begin);
    for (int64_t tile = begin; tile < end; ++tile, walk.next()) runner.run(walk);
    if (streams) call.stage.stream_fence();
  });
}

// Byte offsets of `count` elements from the `first` in iteration order.
void element_offsets(const Plan& plan, const OperandPlan& operand, int64_t first, int64_t count,
                     int64_t* offsets) {
  const Dims &shape = plan.loop_shape, &strides = operand.strides;
  int64_t index[kMaxDims], offset = 0;
  for (int d = 0; d < shape.size(); ++d) {
    index[d] = first % shape[d];
    first /= shape[d];
    offset += index[d] * strides[d];
  }
  for (int64_t k = 0; k < count; ++k) {
    offsets[k] = offset;
    for (int d = 0; d < shape.size(); ++d) {
      offset += strides[d];
      if (++index[d] < shape[d]) break;
      offset -= index[d] * strides[d];
      index[d] = 0;
    }
  }
}

// Per-element offsets: every operand is gathered and scattered element by element, in iteration
// order. Slow and simple: the reference for the other loops.
class GenericRunner {
 public:
  explicit GenericRunner(const Call& call) : call_(call) {
    for (int i = 0; i < call.plan.num_operands; ++i) pointers_[i] = buffers_[i].lanes;
  }

  void run(int64_t first, int64_t count) {
    const Plan& plan = call_.plan;
    for (int i = plan.num_outputs; i < plan.num_operands; ++i) {
      if ((plan.op->unread_inputs >> (i - plan.num_outputs) & 1u) == 0) load(i, first, count);
    }
    call_.kernel(count, pointers_, call_.parameters);
    for (int i = 0; i < plan.num_outputs; ++i) store(i, first, count);
  }

 private:
  void load(int i, int64_t first, int64_t count) {
    const OperandPlan& operand = call_.plan.operands[static_cast<size_t>(i)];
    const auto element = static_cast<size_t>(element_size(operand.dtype));
    const CastFn cast = call_.stage.cast[type_index(operand.dtype)][type_index(operand.lane_dtype)];
    char* packed = cast != nullptr ? buffers_[i].raw : buffers_[i].lanes;
    element_offsets(call_.plan, operand, first, count, offsets_);
    for (int64_t k = 0; k < count; ++k, packed += element)
      std::memcpy(packed, call_.data[i] + offsets_[k], element);
    if (cast != nullptr) cast(buffers_[i].raw, buffers_[i].lanes, count);
    if (operand.rounded) round_lanes(call_, buffers_[i].lanes, buffers_[i].raw, count);
  }

  void store(int i, int64_t first, int64_t count) {
    const OperandPlan& operand = call_.plan.operands[static_cast<size_t>(i)];
    const auto element = static_cast<size_t>(element_size(operand.dtype));
    const CastFn cast = call_.stage.cast[type_index(operand.lane_dtype)][type_index(operand.dtype)];
    if (operand.rounded) round_lanes(call_, buffers_[i].lanes, buffers_[i].raw, count);
    if (cast != nullptr) cast(buffers_[i].lanes, buffers_[i].raw, count);
    const char* packed = cast != nullptr ? buffers_[i].raw : buffers_[i].lanes;
    element_offsets(call_.plan, operand, first, count, offsets_);
    for (int64_t k = 0; k < count; ++k, packed += element)
      std::memcpy(call_.data[i] + offsets_[k], packed, element);
  }

  const Call& call_;
  char* pointers_[kMaxOperands];
  StageBuffer* const buffers_ = stage_buffers();
  int64_t offsets_[kTileBytes];
};

void run_generic(const Call& call, const Parallel& parallel) {
  const int64_t tile = call.plan.tile_inner;
  for_pieces(call.plan, parallel, call.plan.numel, [&](int64_t begin, int64_t end) {
    GenericRunner runner(call);
    for (int64_t first = begin; first < end; first += tile)
      runner.run(first, std::min(tile, end - first));
  });
}

}  // namespace

LaneKernel::LaneKernel(const Plan& plan, const ElementwiseKernels& kernels)
    : lanes(kernels.by_type[kernel_type(plan)]), num_operands(plan.num_operands) {
  if (plan.converts) converting = kernels.converting;
  formats.streamed = plan.operands[0].streamed && !plan.operands[0].staged;
  for (int i = 0; i < num_operands; ++i) {
    const OperandPlan& operand = plan.operands[static_cast<size_t>(i)];
    formats.dtype[i] = operand.lane_dtype;
    formats.repeated |= uint32_t{operand.repeated} << i;
  }
}

void LaneKernel::run_rows(const LaneRows& tile, char* const* pointers,
                          const Number* parameters) const {
  if (tile.rows == 1) return lanes(tile.inner, pointers, parameters);
  char* row_pointers[kMaxOperands];
  std::copy_n(pointers, num_operands, row_pointers);
  for (int64_t row = 0; row < tile.rows; ++row) {
    lanes(tile.inner, row_pointers, parameters);
    for (int i = 0; i < num_operands; ++i) row_pointers[i] += tile.pitches[i];
  }
}

void run_elementwise(const Plan& plan, const ElementwiseKernels& kernels, const StageKernels& stage,
                     char* const* data, const Number* parameters, const Parallel& parallel) {
  if (plan.numel == 0) return;
  const Call call{plan, stage, data, parameters, LaneKernel(plan, kernels)};
  bool in_place = plan.path == Path::vectorized;
  for (int i = 0; i < plan.num_operands; ++i)
    in_place = in_place && !plan.operands[static_cast<size_t>(i)].staged;
  if (in_place) {
    run_flat(call, parallel);
  } else if (plan.path == Path::generic) {
    run_generic(call, parallel);
  } else {
    run_tiles(call, parallel);
  }
}

}  // namespace iterlab::cpu
