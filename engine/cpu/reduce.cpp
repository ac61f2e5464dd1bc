// The CPU loops of reductions: how strips of outputs and leaves of elements are shared between
// threads.
#include "engine/cpu/reduce.h"

#include "engine/cpu/cascade.h"
#include "engine/cpu/share.h"
#include "engine/cpu/strip.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <vector>

namespace iterlab::cpu {
namespace {

// Where strip number `index` lies.
Strip strip_at(const ReduceCall& call, int64_t width, int64_t index) {
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
int64_t strip_width(const ReduceCall& call) {
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
void whole_strip(const ReduceCall& call, StripRunner& runner, const Strip& strip, char* row,
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
  bool ends = false;
  for (; first < call.plan.reduced && !ends; first += kLeaf) {
    const int64_t count = std::min(kLeaf, call.plan.reduced - first);
    runner.leaf(strip, first, count, row);
    ends = is_final(call.kernels, row, strip.columns);
    cascade.push(row, count);
  }
  cascade.finish(row);
}

void run_whole_strips(const ReduceCall& call, int64_t width, int64_t strips,
                      const Parallel& parallel) {
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
void run_split(const ReduceCall& call, int64_t width, int64_t strips, const Parallel& parallel) {
  const ReducePlan& plan = call.plan;
  const int64_t leaves = (plan.reduced + kLeaf - 1) / kLeaf;
  const int64_t row_bytes = (width * call.state + 15) / 16 * 16;
  std::vector<char> partial(static_cast<size_t>(strips * leaves * row_bytes));
  std::vector<std::atomic<bool>> ended(static_cast<size_t>(strips));  // by a leaf that is final
  share(parallel, strips * leaves, static_cast<double>(plan.bytes) * plan.op->cost,
        [&](int64_t begin, int64_t end) {
          StripRunner runner(call);
          for (int64_t task = begin; task < end; ++task) {
            const Strip strip = strip_at(call, width, task / leaves);
            const int64_t first = task % leaves * kLeaf;
            char* const row = partial.data() + task * row_bytes;
            std::atomic<bool>& strip_ended = ended[static_cast<size_t>(task / leaves)];
            if (strip_ended.load(std::memory_order_relaxed)) {
              runner.nothing(strip, row);
              continue;
            }
            runner.leaf(strip, first, std::min(kLeaf, plan.reduced - first), row);
            if (is_final(call.kernels, row, strip.columns))
              strip_ended.store(true, std::memory_order_relaxed);
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

// Strips of fewer elements take longer to start than to run, and, where they are small in memory,
// than to gather elements of which each has a cache line to itself.
constexpr int64_t kTinyStrip = 64;
constexpr int64_t kTinyStripBytes = 112;

// The kept dim whose strips are longest, where those along the first are tiny; else 0.
int longest_kept_dim(const ReducePlan& plan) {
  const Dims& kept = plan.kept_shape;
  if (kept.size() < 2 || kept[0] * plan.reduced >= kTinyStrip) return 0;
  const int64_t element = element_size(plan.input_dtype);
  const bool in_runs = plan.kept_input_strides[0] == element;
  if (in_runs && kept[0] * plan.reduced * element >= kTinyStripBytes) return 0;
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
  const ReduceCall call{plan,
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
