// A strip of outputs, reduced a leaf at a time, in the order of Note [Same bits].
#pragma once

#include "engine/cpu/cascade.h"
#include "engine/cpu/stage.h"
#include "engine/reduce_plan.h"

#include <algorithm>
#include <memory>
#include <vector>

namespace iterlab::cpu {

inline constexpr int64_t kMaxElement = 16;  // bytes of the widest element
inline constexpr int64_t kBufferBytes =
    2 * kBlock * kMaxElement;                 // two blocks, or a row of results
inline constexpr int64_t kStagedRows = 64;    // of a staged tile: four for each lane
inline constexpr int64_t kMaxColumns = 2048;  // of a strip
inline constexpr int64_t kMaxRuns =
    64;  // of a block that is read where it lies: shorter ones are packed
// A row of states, and kLanes of them. A strip reads a run of each input row that is as long as the
// page is slow to find (4 KiB of floats); its lanes then take 64 KiB of the second-level cache,
// which four rows for each update of a lane make cheap. Two components in double (var) take 256 KiB
// for the same run: with 64 KiB, runs of a quarter, a variance over an outer dim took 1.8 times as
// long, one of bfloat16 2.3 times.
inline constexpr int64_t kRowBytes = 16 * 1024;
inline constexpr int64_t kLaneBytes = 256 * 1024;

struct ReduceCall {
  const ReducePlan& plan;
  const ReduceTypeKernels& kernels;
  const StageKernels& stage;
  char* const* outputs;
  char* input;
  int64_t element;  // bytes of one, as kernels read them
  int64_t state;    // bytes of an output's state
  bool streamed;    // results are written past the caches: Note [Streaming stores]
};

// A strip: neighbouring outputs along the first kept dim.
struct Strip {
  char* input;
  char* outputs[kMaxResults];
  int64_t columns;
};

// A thread's buffers, kept between calls: more than some threads' stacks hold.
struct Buffers {
  alignas(64) char lanes[kLaneBytes];
  alignas(64) char results[kMaxResults][kMaxColumns * kMaxElement];
  alignas(64) char staged[kBufferBytes + 320];
  alignas(64) char raw[kBufferBytes + 320];
  alignas(64) char elements[kBufferBytes + 320];
};

inline Buffers& thread_buffers() {
  static thread_local const auto buffers = std::make_unique_for_overwrite<Buffers>();
  return *buffers;
}

class StripRunner {
 public:
  explicit StripRunner(const ReduceCall& call)
      : call_(call), plan_(call.plan), kernels_(call.kernels), buffers_(thread_buffers()) {}

  // Reduces elements [first, first + count) of each output of the strip, a leaf or less, to `row`.
  void leaf(const Strip& strip, int64_t first, int64_t count, char* row) {
    if (plan_.form != ReduceForm::inner) return leaf_rows(strip, first, count, row);
    const int64_t step = strip.columns > 1 ? plan_.kept_input_strides[0] : 0;
    if (is_one_run()) {
      return kernels_.inner(strip.input + first * reduced_stride(0), step, strip.columns, count,
                            plan_.number, row, strip.columns, 0);
    }
    leaf_blocks(strip, step, first, count, row);
  }

  // Whether whole leaves of an output can be reduced as rows are, several in turn: Note [Streams]
  bool leaves_are_rows(const Strip& strip) const {
    return plan_.form == ReduceForm::inner && is_one_run() && strip.columns == 1 &&
           kernels_.lanes > 1;
  }
  // `leaves` whole leaves from element `first` on, each to a column of `rows`.
  void whole_leaves(const Strip& strip, int64_t first, int64_t leaves, char* rows) {
    const int64_t stride = reduced_stride(0);
    kernels_.inner(strip.input + first * stride, kLeaf * stride, leaves, kLeaf, plan_.number, rows,
                   leaves, 0);
  }

  // The state of outputs without elements.
  void nothing(const Strip& strip, char* row) {
    kernels_.start(buffers_.lanes, 1, strip.columns);
    kernels_.fold(buffers_.lanes, 1, strip.columns, row);
  }

  void store(const Strip& strip, char* row) {
    char* results[kMaxResults] = {row, nullptr};
    if (kernels_.project != nullptr) {
      for (size_t i = 0; i < kMaxResults; ++i) results[i] = buffers_.results[i];
      kernels_.project(row, strip.columns, plan_.reduced, plan_.number, results);
    }
    for (size_t i = 0; i < static_cast<size_t>(plan_.op->num_outputs); ++i) {
      const bool position = plan_.op->reduction.results[i] == ResultDType::Index;
      store_result(strip, i, position ? DType::Long : plan_.accumulate_dtype, results[i]);
    }
  }

 private:
  // Whether kernels read the elements of an output where they lie, one after another.
  bool is_one_run() const { return plan_.reduced_shape.size() <= 1 && !plan_.staged; }

  int64_t reduced_stride(int d) const {
    return d < plan_.reduced_strides.size() ? plan_.reduced_strides[d] : 0;
  }
  int64_t column_stride() const {
    return plan_.kept_input_strides.empty() ? 0 : plan_.kept_input_strides[0];
  }

  void store_result(const Strip& strip, size_t i, DType projected, const char* values) {
    const Dims& strides = plan_.kept_output_strides[i];
    const Tile tile{strip.outputs[i], strides.empty() ? 0 : strides[0], 0, strip.columns, 1};
    const DType result = plan_.result_dtypes[i], output = plan_.output_dtypes[i];
    if (result != output && result != projected) {
      call_.stage.cast[type_index(projected)][type_index(result)](values, buffers_.staged,
                                                                  strip.columns);
      stage_out(call_.stage, tile, result, output, buffers_.staged, buffers_.raw, call_.streamed);
    } else {
      stage_out(call_.stage, tile, projected, output, values, buffers_.raw, call_.streamed);
    }
  }

  // inner, where a leaf is not one run of memory: block by block for all outputs of the strip,
  // which keeps to the order of memory.
  void leaf_blocks(const Strip& strip, int64_t step, int64_t first, int64_t count, char* row) {
    Cascade cascade(kernels_, strip.columns, block_levels_);
    for (int64_t begin = first; begin < first + count; begin += kBlock) {
      const int64_t size = std::min(kBlock, first + count - begin);
      Run runs[kMaxRuns];
      const int64_t places = runs_in_place(strip.input, begin, size, runs);
      if (places == 1) {
        kernels_.inner(strip.input + runs[0].offset, step, strip.columns, size, plan_.number, row,
                       strip.columns, 0);
      } else if (places > 1) {
        const std::span list(runs, static_cast<size_t>(places));
        kernels_.block_of_runs(strip.input, list, step, strip.columns, plan_.number, row);
      } else {
        for (int64_t c = 0; c < strip.columns; ++c) {
          if (c + 2 < strip.columns) prefetch_block(strip.input + (c + 2) * step, begin, size);
          stage_block(strip.input + c * step, begin, size);
          kernels_.inner(buffers_.staged, 0, 1, size, plan_.number, row, strip.columns, c);
        }
      }
      const bool ends = is_final(kernels_, row, strip.columns);
      if (count > kBlock) cascade.push(row, size);
      if (ends) break;
    }
    if (count > kBlock) cascade.finish(row);
  }

  // outer and short inner: lanes of accumulators, one element of each output at a time. Where there
  // is a single lane, a leaf is one block, unless it may end early.
  void leaf_rows(const Strip& strip, int64_t first, int64_t count, char* row) {
    if (kernels_.few_rows != nullptr && plan_.reduced <= kLanes &&
        plan_.reduced_shape.size() <= 1) {
      return few_rows(strip, row);
    }
    Cascade cascade(kernels_, strip.columns, block_levels_);
    const int64_t block = kernels_.lanes == 1 && kernels_.is_final == nullptr ? kLeaf : kBlock;
    for (int64_t begin = first; begin < first + count; begin += block) {
      const int64_t size = std::min(block, first + count - begin);
      kernels_.start(buffers_.lanes, std::min(size, kernels_.lanes), strip.columns);
      for_runs(strip.input, begin, size,
               [&](char* data, int64_t done, int64_t inner, int64_t rows) {
                 const int64_t stride = reduced_stride(0);
                 const int64_t outer = reduced_stride(1);
                 for (int64_t r = 0; r < rows; ++r) {
                   accumulate_rows(strip, data + r * outer, stride, done + r * inner, inner);
                 }
               });
      kernels_.fold(buffers_.lanes, size, strip.columns, row);
      const bool ends = is_final(kernels_, row, strip.columns);
      if (count > block) cascade.push(row, size);
      if (ends) break;
    }
    if (count > block) cascade.finish(row);
  }

  // All elements of outputs that have no more than there are lanes.
  void few_rows(const Strip& strip, char* row) {
    const int64_t column = column_stride();
    const int64_t stride = reduced_stride(0);
    if (!plan_.staged && plan_.form == ReduceForm::short_inner) {
      return kernels_.dense_rows(strip.input, plan_.reduced, strip.columns, plan_.number, row);
    }
    if (!plan_.staged) {
      return kernels_.few_rows(strip.input, stride, plan_.reduced, strip.columns, plan_.number,
                               row);
    }
    const Tile tile{strip.input, column, stride, strip.columns, plan_.reduced};
    Tile next = tile;
    next.data += strip.columns * column;
    prefetch(next, element_size(plan_.input_dtype));  // of the next strip: Note [Prefetch]
    load(tile, buffers_.staged);
    kernels_.few_rows(buffers_.staged, strip.columns * call_.element, plan_.reduced, strip.columns,
                      plan_.number, row);
  }

  void accumulate_rows(const Strip& strip, char* data, int64_t stride, int64_t first,
                       int64_t count) {
    const int64_t column = column_stride();
    if (!plan_.staged)
      return kernels_.rows(data, stride, first, count, strip.columns, plan_.number, buffers_.lanes);
    const int64_t widest = std::max(call_.element, element_size(plan_.input_dtype));
    const int64_t most = std::max<int64_t>(1, kBufferBytes / (strip.columns * widest));
    for (int64_t done = 0; done < count; done += most) {
      const int64_t rows = std::min(most, count - done);
      load({data + done * stride, column, stride, strip.columns, rows}, buffers_.staged);
      kernels_.rows(buffers_.staged, strip.columns * call_.element, first + done, rows,
                    strip.columns, plan_.number, buffers_.lanes);
    }
  }

  // How many runs elements [begin, begin + size) lie in, the same for all outputs of a strip; 0
  // where kernels cannot read them there.
  int64_t runs_in_place(char* input, int64_t begin, int64_t size, Run (&runs)[kMaxRuns]) const {
    if (plan_.staged) return 0;
    const int64_t most = kernels_.block_of_runs != nullptr ? kMaxRuns : 1;
    int64_t places = 0;
    bool fits = true;
    for_runs(input, begin, size, [&](const char* data, int64_t done, int64_t inner, int64_t rows) {
      const bool whole_lanes = inner % kernels_.lanes == 0 || (rows == 1 && done + inner == size);
      fits = fits && whole_lanes && places + rows <= most;
      for (int64_t r = 0; fits && r < rows; ++r)
        runs[places++] = {data + r * reduced_stride(1) - input, inner};
    });
    return fits ? places : 0;
  }

  void prefetch_block(char* input, int64_t begin, int64_t size) {
    for_runs(input, begin, size, [&](char* data, int64_t, int64_t inner, int64_t rows) {
      prefetch(runs_tile(data, inner, rows), element_size(plan_.input_dtype));
    });
  }

  // Elements [begin, begin + size), packed in the loaded type, to `staged`.
  void stage_block(char* input, int64_t begin, int64_t size) {
    for_runs(input, begin, size, [&](char* data, int64_t done, int64_t inner, int64_t rows) {
      load(runs_tile(data, inner, rows), buffers_.staged + done * call_.element);
    });
  }

  Tile runs_tile(char* data, int64_t inner, int64_t rows) const {
    return {data, reduced_stride(0), reduced_stride(1), inner, rows};
  }

  // Calls run(data, done, inner, rows) for pieces of consecutive elements: `rows` runs of `inner`
  // along the first reduced dim, the first of them element `done` of the range.
  template <class Run>
  void for_runs(char* input, int64_t begin, int64_t size, const Run& run) const {
    const Dims& shape = plan_.reduced_shape;
    if (shape.size() <= 1) {
      return run(input + begin * reduced_stride(0), int64_t{0}, size, int64_t{1});
    }
    int64_t done = 0;
    while (done < size) {
      char* data = input;
      int64_t index = begin + done;
      int64_t position[2] = {0, 0};
      for (int d = 0; d < shape.size(); ++d) {
        const int64_t i = index % shape[d];
        if (d < 2) position[d] = i;
        data += i * plan_.reduced_strides[d];
        index /= shape[d];
      }
      const int64_t inner = std::min(shape[0] - position[0], size - done);
      const bool whole = inner == shape[0];
      const int64_t rows = whole ? std::min(shape[1] - position[1], (size - done) / inner) : 1;
      run(data, done, inner, rows);
      done += inner * rows;
    }
  }

  // A tile, converted by way of the element dtype where the dtype argument asks for it.
  void load(const Tile& tile, char* to) {
    const DType last = plan_.loaded_dtype;
    if (plan_.element_dtype == plan_.input_dtype || plan_.element_dtype == last) {
      return stage_in(call_.stage, tile, plan_.input_dtype, last, to, buffers_.raw);
    }
    stage_in(call_.stage, tile, plan_.input_dtype, plan_.element_dtype, buffers_.elements,
             buffers_.raw);
    call_.stage.cast[type_index(plan_.element_dtype)][type_index(last)](buffers_.elements, to,
                                                                        tile.inner * tile.rows);
  }

  const ReduceCall& call_;
  const ReducePlan& plan_;
  const ReduceTypeKernels& kernels_;
  Buffers& buffers_;
  std::vector<char> block_levels_;
};

}  // namespace iterlab::cpu
