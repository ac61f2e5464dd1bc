// The CPU loops of reductions: strips of outputs, leaves of elements, in the order of Note [Same
// bits].
#include "engine/cpu/reduce.h"

#include "engine/cpu/share.h"
#include "engine/cpu/stage.h"
#include "engine/reduce_plan.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace iterlab::cpu {
namespace {

constexpr int64_t kMaxAccumulator = 16;                     // bytes of the widest accumulate type
constexpr int64_t kBufferBytes = kBlock * kMaxAccumulator;  // a block in the widest type
constexpr int kLevels = 40;                                 // 2^40 blocks

struct Call {
  const ReducePlan& plan;
  const ReduceTypeKernels& kernels;
  const StageKernels& stage;
  char* output;
  char* input;
  int64_t accumulator;  // bytes
};

// Combines rows of accumulators pairwise, as a binary counter carries: row k of a level stands for
// 2^level pushes.
class Cascade {
 public:
  Cascade(const ReduceTypeKernels& kernels, int64_t accumulator, int64_t columns)
      : kernels_(kernels), bytes_(static_cast<size_t>(accumulator * columns)), columns_(columns) {}

  void push(char* row) {
    int level = 0;
    for (; (pushed_ >> level & 1) != 0; ++level) {
      kernels_.combine(at(level), row, columns_);
      std::memcpy(row, at(level), bytes_);
    }
    std::memcpy(at(level), row, bytes_);
    ++pushed_;
  }

  // The combination of all rows; at least one was pushed.
  void finish(char* row) {
    bool first = true;
    for (int level = 0; level < kLevels; ++level) {
      if ((pushed_ >> level & 1) == 0) continue;
      if (!first) kernels_.combine(at(level), row, columns_);
      std::memcpy(row, at(level), bytes_);
      first = false;
    }
  }

 private:
  char* at(int level) { return rows_ + static_cast<size_t>(level) * bytes_; }

  const ReduceTypeKernels& kernels_;
  size_t bytes_;
  int64_t columns_;
  int64_t pushed_ = 0;
  alignas(64) char rows_[kLevels * kStripBytes];
};

// A strip: neighbouring outputs along the first kept dim.
struct Strip {
  char* input;
  char* output;
  int64_t columns;
};

class StripRunner {
 public:
  explicit StripRunner(const Call& call) : call_(call), plan_(call.plan) {}

  // Accumulates elements [first, first + count) of each output of the strip, a leaf or less, into
  // `row`.
  void leaf(const Strip& strip, int64_t first, int64_t count, char* row) {
    if (plan_.form != ReduceForm::inner) return leaf_rows(strip, first, count, row);
    for (int64_t c = 0; c < strip.columns; ++c) {
      char* const input = strip.input + (strip.columns > 1 ? c * plan_.kept_input_strides[0] : 0);
      leaf_blocks(input, first, count, row + c * call_.accumulator);
    }
  }

  void store(const Strip& strip, char* row) {
    call_.kernels.project(row, strip.columns, plan_.reduced);
    const int64_t stride = plan_.kept_output_strides.empty() ? 0 : plan_.kept_output_strides[0];
    const Tile tile{strip.output, stride, 0, strip.columns, 1};
    if (plan_.result_dtype != plan_.output_dtype && plan_.result_dtype != plan_.accumulate_dtype) {
      call_.stage.cast[type_index(plan_.accumulate_dtype)][type_index(plan_.result_dtype)](
          row, staged_, strip.columns);
      stage_out(call_.stage, tile, plan_.result_dtype, plan_.output_dtype, staged_, raw_, false);
    } else {
      stage_out(call_.stage, tile, plan_.accumulate_dtype, plan_.output_dtype, row, raw_, false);
    }
  }

 private:
  // inner: blocks of one output's elements.
  void leaf_blocks(char* input, int64_t first, int64_t count, char* accumulator) {
    Cascade cascade(call_.kernels, call_.accumulator, 1);
    for (int64_t begin = first; begin < first + count; begin += kBlock) {
      const int64_t size = std::min(kBlock, first + count - begin);
      call_.kernels.block(block_data(input, begin, size), size, accumulator);
      cascade.push(accumulator);
    }
    cascade.finish(accumulator);
  }

  // outer and short inner: rows of accumulators, one element of each output at a time.
  void leaf_rows(const Strip& strip, int64_t first, int64_t count, char* row) {
    Cascade cascade(call_.kernels, call_.accumulator, strip.columns);
    for (int64_t begin = first; begin < first + count; begin += kBlock) {
      const int64_t size = std::min(kBlock, first + count - begin);
      const int64_t used = std::min(size, kLanes);
      call_.kernels.identity(lanes_, used * strip.columns);
      for_runs(
          strip.input, begin, size, [&](char* data, int64_t done, int64_t inner, int64_t rows) {
            const int64_t stride = plan_.reduced_strides.empty() ? 0 : plan_.reduced_strides[0];
            const int64_t outer = plan_.reduced_strides.size() > 1 ? plan_.reduced_strides[1] : 0;
            for (int64_t r = 0; r < rows; ++r) {
              accumulate_rows(strip, data + r * outer, stride, done + r * inner, inner);
            }
          });
      call_.kernels.fold_rows(lanes_, used, strip.columns);
      std::memcpy(row, lanes_, static_cast<size_t>(strip.columns * call_.accumulator));
      cascade.push(row);
    }
    cascade.finish(row);
  }

  void accumulate_rows(const Strip& strip, char* data, int64_t stride, int64_t first,
                       int64_t count) {
    const int64_t column = plan_.kept_input_strides.empty() ? 0 : plan_.kept_input_strides[0];
    if (!plan_.staged) return call_.kernels.rows(data, stride, first, count, strip.columns, lanes_);
    const int64_t most = std::max<int64_t>(1, kTileBytes / (strip.columns * kMaxAccumulator));
    for (int64_t done = 0; done < count; done += most) {
      const int64_t rows = std::min(most, count - done);
      load({data + done * stride, column, stride, strip.columns, rows}, staged_);
      call_.kernels.rows(staged_, strip.columns * call_.accumulator, first + done, rows,
                         strip.columns, lanes_);
    }
  }

  // Elements [begin, begin + size) as contiguous memory in the accumulate type.
  const char* block_data(char* input, int64_t begin, int64_t size) {
    const int64_t stride = plan_.reduced_strides.empty() ? 0 : plan_.reduced_strides[0];
    const int64_t outer = plan_.reduced_strides.size() > 1 ? plan_.reduced_strides[1] : 0;
    const char* in_place = nullptr;
    for_runs(input, begin, size, [&](char* data, int64_t done, int64_t inner, int64_t rows) {
      if (!plan_.staged && inner == size) {
        in_place = data;
      } else {
        load({data, stride, outer, inner, rows}, staged_ + done * call_.accumulator);
      }
    });
    return in_place != nullptr ? in_place : staged_;
  }

  // Calls run(data, done, inner, rows) for pieces of consecutive elements: `rows` runs of `inner`
  // along the first reduced dim, the first of them element `done` of the range.
  template <class Run>
  void for_runs(char* input, int64_t begin, int64_t size, const Run& run) const {
    const Dims& shape = plan_.reduced_shape;
    if (shape.size() <= 1) {
      return run(input + begin * (shape.empty() ? 0 : plan_.reduced_strides[0]), int64_t{0}, size,
                 int64_t{1});
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
    const DType last = plan_.accumulate_dtype;
    if (plan_.element_dtype == plan_.input_dtype || plan_.element_dtype == last) {
      return stage_in(call_.stage, tile, plan_.input_dtype, last, to, raw_);
    }
    stage_in(call_.stage, tile, plan_.input_dtype, plan_.element_dtype, elements_, raw_);
    call_.stage.cast[type_index(plan_.element_dtype)][type_index(last)](elements_, to,
                                                                        tile.inner * tile.rows);
  }

  const Call& call_;
  const ReducePlan& plan_;
  alignas(64) char lanes_[kLanes * kStripBytes];
  alignas(64) char staged_[kBufferBytes + 320];
  alignas(64) char raw_[kBufferBytes + 320];
  alignas(64) char elements_[kBufferBytes];
};

// Where strip number `index` lies.
Strip strip_at(const Call& call, int64_t width, int64_t index) {
  const ReducePlan& plan = call.plan;
  Strip strip{call.input, call.output, 1};
  if (plan.kept_shape.empty()) return strip;
  const int64_t strips = (plan.kept_shape[0] + width - 1) / width;
  const int64_t first = index % strips * width;
  strip.columns = std::min(width, plan.kept_shape[0] - first);
  strip.input += first * plan.kept_input_strides[0];
  strip.output += first * plan.kept_output_strides[0];
  index /= strips;
  for (int d = 1; d < plan.kept_shape.size(); ++d) {
    const int64_t i = index % plan.kept_shape[d];
    strip.input += i * plan.kept_input_strides[d];
    strip.output += i * plan.kept_output_strides[d];
    index /= plan.kept_shape[d];
  }
  return strip;
}

void run_whole_strips(const Call& call, int64_t width, int64_t strips, const Parallel& parallel) {
  share(parallel, strips, static_cast<double>(call.plan.bytes) * call.plan.op->cost,
        [&](int64_t begin, int64_t end) {
          StripRunner runner(call);
          alignas(64) char row[kStripBytes];
          for (int64_t s = begin; s < end; ++s) {
            const Strip strip = strip_at(call, width, s);
            if (call.plan.reduced == 0) {
              call.kernels.identity(row, strip.columns);
            } else {
              Cascade cascade(call.kernels, call.accumulator, strip.columns);
              for (int64_t first = 0; first < call.plan.reduced; first += kLeaf) {
                runner.leaf(strip, first, std::min(kLeaf, call.plan.reduced - first), row);
                cascade.push(row);
              }
              cascade.finish(row);
            }
            runner.store(strip, row);
          }
        });
}

// Few strips: threads share the leaves of each, which are then combined in the same order as above.
void run_split(const Call& call, int64_t width, int64_t strips, const Parallel& parallel) {
  const ReducePlan& plan = call.plan;
  const int64_t leaves = (plan.reduced + kLeaf - 1) / kLeaf;
  const int64_t row_bytes = width * call.accumulator;
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
  alignas(64) char row[kStripBytes];
  for (int64_t s = 0; s < strips; ++s) {
    const Strip strip = strip_at(call, width, s);
    Cascade cascade(call.kernels, call.accumulator, strip.columns);
    for (int64_t leaf = 0; leaf < leaves; ++leaf)
      cascade.push(partial.data() + (s * leaves + leaf) * row_bytes);
    cascade.finish(row);
    runner.store(strip, row);
  }
}

}  // namespace

void run_reduction(const ReducePlan& plan, const ReduceKernels& kernels, const StageKernels& stage,
                   char* output, const char* input, const Parallel& parallel) {
  if (plan.outputs == 0) return;
  const Call call{plan,
                  kernels.by_type[compute_index(plan.accumulate_dtype)],
                  stage,
                  output,
                  const_cast<char*>(input),
                  element_size(plan.accumulate_dtype)};
  const int64_t columns = plan.kept_shape.empty() ? 1 : plan.kept_shape[0];
  // Strips do not decide any result's bits, so that they may be narrowed for more threads to share
  // them.
  int64_t width = plan.strip;
  const auto strips_of = [&](int64_t w) {
    return plan.outputs / columns * ((columns + w - 1) / w);
  };
  while (width > 16 && strips_of(width) < 4 * parallel.threads) width /= 2;
  const int64_t strips = strips_of(width);
  if (plan.split && strips < 4 * parallel.threads && parallel.threads > 1) {
    run_split(call, width, strips, parallel);
  } else {
    run_whole_strips(call, width, strips, parallel);
  }
}

}  // namespace iterlab::cpu
