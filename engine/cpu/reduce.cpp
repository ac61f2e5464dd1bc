// The CPU loops of reductions: strips of outputs, leaves of elements, in the order of Note [Same
// bits].
#include "engine/cpu/reduce.h"

#include "engine/cpu/cascade.h"
#include "engine/cpu/share.h"
#include "engine/cpu/stage.h"
#include "engine/reduce_plan.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace iterlab::cpu {
namespace {

constexpr int64_t kMaxElement = 16;                         // bytes of the widest element
constexpr int64_t kBufferBytes = 2 * kBlock * kMaxElement;  // two blocks, or a row of results
constexpr int64_t kStagedRows = 64;                         // of a staged tile: four for each lane
constexpr int64_t kMaxColumns = 2048;                       // of a strip
constexpr int64_t kMaxRuns = 64;  // of a block that is read where it lies: shorter ones are packed
// A row of states, and kLanes of them. A strip reads a run of each input row that is as long as the
// page is slow to find (4 KiB of floats); its lanes then take 64 KiB of the second-level cache,
// which four rows for each update of a lane make cheap. Two components in double (var) take 256 KiB
// for the same run: with 64 KiB, runs of a quarter, a variance over an outer dim took 1.8 times as
// long, one of bfloat16 2.3 times.
constexpr int64_t kRowBytes = 16 * 1024;
constexpr int64_t kLaneBytes = 256 * 1024;

struct Call {
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

class StripRunner {
 public:
  explicit StripRunner(const Call& call) : call_(call), plan_(call.plan), kernels_(call.kernels) {}

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
    kernels_.start(lanes_, 1, strip.columns);
    kernels_.fold(lanes_, 1, strip.columns, row);
  }

  void store(const Strip& strip, char* row) {
    char* results[kMaxResults] = {row, nullptr};
    if (kernels_.project != nullptr) {
      for (size_t i = 0; i < kMaxResults; ++i) results[i] = results_[i];
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
      call_.stage.cast[type_index(projected)][type_index(result)](values, staged_, strip.columns);
      stage_out(call_.stage, tile, result, output, staged_, raw_, call_.streamed);
    } else {
      stage_out(call_.stage, tile, projected, output, values, raw_, call_.streamed);
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
          kernels_.inner(staged_, 0, 1, size, plan_.number, row, strip.columns, c);
        }
      }
      if (count > kBlock) cascade.push(row, size);
    }
    if (count > kBlock) cascade.finish(row);
  }

  // outer and short inner: lanes of accumulators, one element of each output at a time. Where there
  // is a single lane, a leaf is one block.
  void leaf_rows(const Strip& strip, int64_t first, int64_t count, char* row) {
    if (kernels_.few_rows != nullptr && plan_.reduced <= kLanes &&
        plan_.reduced_shape.size() <= 1) {
      return few_rows(strip, row);
    }
    Cascade cascade(kernels_, strip.columns, block_levels_);
    const int64_t block = kernels_.lanes == 1 ? kLeaf : kBlock;
    for (int64_t begin = first; begin < first + count; begin += block) {
      const int64_t size = std::min(block, first + count - begin);
      kernels_.start(lanes_, std::min(size, kernels_.lanes), strip.columns);
      for_runs(strip.input, begin, size,
               [&](char* data, int64_t done, int64_t inner, int64_t rows) {
                 const int64_t stride = reduced_stride(0);
                 const int64_t outer = reduced_stride(1);
                 for (int64_t r = 0; r < rows; ++r) {
                   accumulate_rows(strip, data + r * outer, stride, done + r * inner, inner);
                 }
               });
      kernels_.fold(lanes_, size, strip.columns, row);
      if (count > block) cascade.push(row, size);
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
    load(tile, staged_);
    kernels_.few_rows(staged_, strip.columns * call_.element, plan_.reduced, strip.columns,
                      plan_.number, row);
  }

  void accumulate_rows(const Strip& strip, char* data, int64_t stride, int64_t first,
                       int64_t count) {
    const int64_t column = column_stride();
    if (!plan_.staged)
      return kernels_.rows(data, stride, first, count, strip.columns, plan_.number, lanes_);
    const int64_t widest = std::max(call_.element, element_size(plan_.input_dtype));
    const int64_t most = std::max<int64_t>(1, kBufferBytes / (strip.columns * widest));
    for (int64_t done = 0; done < count; done += most) {
      const int64_t rows = std::min(most, count - done);
      load({data + done * stride, column, stride, strip.columns, rows}, staged_);
      kernels_.rows(staged_, strip.columns * call_.element, first + done, rows, strip.columns,
                    plan_.number, lanes_);
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

  // Elements [begin, begin + size), packed in the loaded type, to staged_.
  void stage_block(char* input, int64_t begin, int64_t size) {
    for_runs(input, begin, size, [&](char* data, int64_t done, int64_t inner, int64_t rows) {
      load(runs_tile(data, inner, rows), staged_ + done * call_.element);
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
      return stage_in(call_.stage, tile, plan_.input_dtype, last, to, raw_);
    }
    stage_in(call_.stage, tile, plan_.input_dtype, plan_.element_dtype, elements_, raw_);
    call_.stage.cast[type_index(plan_.element_dtype)][type_index(last)](elements_, to,
                                                                        tile.inner * tile.rows);
  }

  const Call& call_;
  const ReducePlan& plan_;
  const ReduceTypeKernels& kernels_;
  std::vector<char> block_levels_;
  alignas(64) char lanes_[kLaneBytes];
  alignas(64) char results_[kMaxResults][kMaxColumns * kMaxElement];
  alignas(64) char staged_[kBufferBytes + 320];
  alignas(64) char raw_[kBufferBytes + 320];
  alignas(64) char elements_[kBufferBytes + 320];
};

// Where strip number `index` lies.
Strip strip_at(const Call& call, int64_t width, int64_t index) {
  const ReducePlan& plan = call.plan;
  Strip strip{call.input, {call.outputs[0], call.outputs[1]}, 1};
  if (plan.kept_shape.empty()) return strip;
  const int64_t strips = (plan.kept_shape[0] + width - 1) / width;
  const int64_t first = index % strips * width;
  strip.columns = std::min(width, plan.kept_shape[0] - first);
  strip.input += first * plan.kept_input_strides[0];
  for (size_t k = 0; k < kMaxResults; ++k)
    strip.outputs[k] += first * plan.kept_output_strides[k][0];
  index /= strips;
  for (int d = 1; d < plan.kept_shape.size(); ++d) {
    const int64_t i = index % plan.kept_shape[d];
    strip.input += i * plan.kept_input_strides[d];
    for (size_t k = 0; k < kMaxResults; ++k) strip.outputs[k] += i * plan.kept_output_strides[k][d];
    index /= plan.kept_shape[d];
  }
  return strip;
}

// Outputs that are reduced together: as many as the buffers hold.
int64_t strip_width(const Call& call) {
  const ReducePlan& plan = call.plan;
  const int64_t columns = plan.kept_shape.empty() ? 1 : plan.kept_shape[0];
  const int64_t row = std::min(kRowBytes, kLaneBytes / call.kernels.lanes);
  int64_t width = std::min({columns, row / call.state, kMaxColumns});
  if (plan.staged) {
    const int64_t widest = std::max(call.element, element_size(plan.input_dtype));
    const int64_t rows = plan.form == ReduceForm::inner ? 1 : std::min(plan.reduced, kStagedRows);
    width = std::min(width,
                     std::max<int64_t>(16, kBufferBytes / (widest * std::max<int64_t>(rows, 1))));
  }
  return width;
}

// A strip of more than a leaf, by one thread.
void whole_strip(const Call& call, StripRunner& runner, const Strip& strip, char* row,
                 std::vector<char>& levels) {
  Cascade cascade(call.kernels, strip.columns, levels);
  int64_t first = 0;
  if (runner.leaves_are_rows(strip)) {
    constexpr int64_t kTogether = 16;
    alignas(64) char rows[kTogether * 2 * kMaxElement];  // of two components
    const int64_t bytes = call.kernels.component_bytes[0];
    while (const int64_t leaves = std::min(kTogether, (call.plan.reduced - first) / kLeaf)) {
      runner.whole_leaves(strip, first, leaves, rows);
      for (int64_t leaf = 0; leaf < leaves; ++leaf) {
        for (int64_t n = 0; n < call.kernels.components; ++n)
          std::memcpy(row + n * bytes, rows + (n * leaves + leaf) * bytes,
                      static_cast<size_t>(bytes));
        cascade.push(row, kLeaf);
      }
      first += leaves * kLeaf;
    }
  }
  for (; first < call.plan.reduced; first += kLeaf) {
    const int64_t count = std::min(kLeaf, call.plan.reduced - first);
    runner.leaf(strip, first, count, row);
    cascade.push(row, count);
  }
  cascade.finish(row);
}

void run_whole_strips(const Call& call, int64_t width, int64_t strips, const Parallel& parallel) {
  share(parallel, strips, static_cast<double>(call.plan.bytes) * call.plan.op->cost,
        [&](int64_t begin, int64_t end) {
          StripRunner runner(call);
          std::vector<char> levels;
          alignas(64) char row[kRowBytes];
          for (int64_t s = begin; s < end; ++s) {
            const Strip strip = strip_at(call, width, s);
            if (call.plan.reduced == 0) {
              runner.nothing(strip, row);
            } else if (call.plan.reduced <= kLeaf) {
              runner.leaf(strip, 0, call.plan.reduced, row);
            } else {
              whole_strip(call, runner, strip, row, levels);
            }
            runner.store(strip, row);
          }
          if (call.streamed) call.stage.stream_fence();
        });
}

// Few strips: threads share the leaves of each, which are then combined in the same order as above.
void run_split(const Call& call, int64_t width, int64_t strips, const Parallel& parallel) {
  const ReducePlan& plan = call.plan;
  const int64_t leaves = (plan.reduced + kLeaf - 1) / kLeaf;
  const int64_t row_bytes = (width * call.state + 15) / 16 * 16;
  std::vector<char> partial(static_cast<size_t>(strips * leaves * row_bytes));
  share(parallel, strips * leaves, static_cast<double>(plan.bytes) * plan.op->cost,
        [&](int64_t begin, int64_t end) {
          StripRunner runner(call);
          for (int64_t task = begin; task < end; ++task) {
            const int64_t first = task % leaves * kLeaf;
            runner.leaf(strip_at(call, width, task / leaves), first,
                        std::min(kLeaf, plan.reduced - first), partial.data() + task * row_bytes);
          }
        });
  StripRunner runner(call);
  std::vector<char> levels;
  alignas(64) char row[kRowBytes];
  for (int64_t s = 0; s < strips; ++s) {
    const Strip strip = strip_at(call, width, s);
    Cascade cascade(call.kernels, strip.columns, levels);
    for (int64_t leaf = 0; leaf < leaves; ++leaf) {
      cascade.push(partial.data() + (s * leaves + leaf) * row_bytes,
                   std::min(kLeaf, plan.reduced - leaf * kLeaf));
    }
    cascade.finish(row);
    runner.store(strip, row);
  }
  if (call.streamed) call.stage.stream_fence();
}

// Contiguous results of this size or more go past the caches where the whole call is as large as
// Note [Streaming stores] says: the input has taken the caches. (A sum over an inner dim of 3, 8
// of 64 MiB: 1.17 and 1.14 times as fast.)
constexpr int64_t kStreamResultsFrom = int64_t{1} << 20;

bool is_streamed(const ReducePlan& plan) {
  if (plan.bytes < kStreamFromBytes || plan.kept_shape.empty()) return false;
  for (size_t i = 0; i < static_cast<size_t>(plan.op->num_outputs); ++i) {
    const int64_t element = element_size(plan.output_dtypes[i]);
    if (plan.kept_output_strides[i][0] != element || plan.outputs * element < kStreamResultsFrom)
      return false;
  }
  return true;
}

// Strips of fewer elements take longer to start than to run.
constexpr int64_t kTinyStrip = 64;

// The kept dim whose strips are longest, where those along the first are tiny; else 0.
int longest_kept_dim(const ReducePlan& plan) {
  const Dims& kept = plan.kept_shape;
  if (kept.size() < 2 || kept[0] * plan.reduced >= kTinyStrip) return 0;
  const auto longest = std::max_element(kept.begin(), kept.end());
  return *longest < 4 * kept[0] ? 0 : static_cast<int>(longest - kept.begin());
}

ReducePlan with_first_kept_dim(const ReducePlan& plan, int dim) {
  ReducePlan changed = plan;
  std::swap(changed.kept_shape[0], changed.kept_shape[dim]);
  std::swap(changed.kept_input_strides[0], changed.kept_input_strides[dim]);
  for (Dims& strides : changed.kept_output_strides) std::swap(strides[0], strides[dim]);
  choose_form(changed);
  return changed;
}

}  // namespace

void run_reduction(const ReducePlan& plan, const ReduceKernels& kernels, const StageKernels& stage,
                   char* const* outputs, const char* input, const Parallel& parallel) {
  if (plan.outputs == 0) return;
  if (const int dim = longest_kept_dim(plan); dim != 0) {
    const ReducePlan longer = with_first_kept_dim(plan, dim);
    return run_reduction(longer, kernels, stage, outputs, input, parallel);
  }
  const auto type = static_cast<size_t>(std::max(0, type_index(plan.loaded_dtype)));
  const ReduceTypeKernels& of_type = kernels.variants[plan.variant]->by_type[type];
  const Call call{plan,
                  of_type,
                  stage,
                  outputs,
                  const_cast<char*>(input),
                  element_size(plan.loaded_dtype),
                  state_bytes(of_type),
                  is_streamed(plan)};
  const int64_t columns = plan.kept_shape.empty() ? 1 : plan.kept_shape[0];
  int64_t width = strip_width(call);
  const auto strips_of = [&](int64_t w) {
    return plan.outputs / columns * ((columns + w - 1) / w);
  };
  // Strips do not decide any result's bits, so that they may be narrowed for more threads to share
  // them.
  if (parallel.threads > 1) {
    while (width > 16 && strips_of(width) < 4 * parallel.threads) width /= 2;
  }
  const int64_t strips = strips_of(width);
  if (plan.split && strips < 4 * parallel.threads && parallel.threads > 1) {
    run_split(call, width, strips, parallel);
  } else {
    run_whole_strips(call, width, strips, parallel);
  }
}

}  // namespace iterlab::cpu
