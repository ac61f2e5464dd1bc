// The host side of reductions: from a plan to the arguments of one launch.
#include "engine/cuda/reduce.h"

#include "engine/cuda/launch.h"
#include "engine/cuda/reduce_arguments.h"
#include "engine/cuda/staging.cuh"
#include "iterlab/error.h"

#include <algorithm>
#include <array>

namespace iterlab::cuda {
namespace {

constexpr int64_t kMaxIndex = INT32_MAX;

constexpr std::array kElementSizes{
#define ITERLAB_SIZE(type, name, text) static_cast<int>(sizeof(type)),
    ITERLAB_FORALL_COMPUTE_TYPES(ITERLAB_SIZE)
#undef ITERLAB_SIZE
};

class Run {
 public:
  Run(const ReducePlan& plan, const ReduceKernels& kernels, const WorkspaceSource& workspace,
      const Context& context)
      : plan_(plan), workspace_(workspace), context_(context) {
    const auto type = static_cast<size_t>(compute_index(compute_dtype(plan.element_dtype)));
    size_ = kElementSizes[type];
    width_ = group_width(size_);
    kernels_ = &kernels.variants[plan.variant]->by_type[type];
  }

  // The outputs of the first `kept` of the plan's kept dims, with what the others add up to.
  void launch(int kept, const char* input, char* const* outputs) const {
    if (kept > kMaxLoopDims) {
      for (int64_t i = 0; i < plan_.kept_shape[kept - 1]; ++i) {
        char* parts[kMaxResults];
        for (size_t k = 0; k < kMaxResults; ++k)
          parts[k] = outputs[k] + i * plan_.kept_output_strides[k][kept - 1];
        launch(kept - 1, input + i * plan_.kept_input_strides[kept - 1], parts);
      }
      return;
    }
    if (plan_.reduced_shape.size() > kMaxLoopDims) {
      throw PlanError(PlanError::Kind::NotImplemented, *plan_.op,
                      "expected at most 16 reduced dims that cannot be walked as one, got " +
                          std::to_string(plan_.reduced_shape.size()));
    }
    ReduceArguments args;
    fill(kept, input, outputs, args);
    if (fits_short(args)) return short_inner(args);
    if (fits_few_rows(args)) return few_rows(args);
    if (fits_merged(args)) return merged(args);
    if (fits_outer(args)) return outer(args);
    inner(args);
  }

 private:
  void fill(int kept, const char* input, char* const* outputs, ReduceArguments& args) const {
    args.input = input;
    args.type = static_cast<int16_t>(type_index(plan_.input_dtype));
    args.size = static_cast<int16_t>(element_size(plan_.input_dtype));
    // Conversion to a half type rounds on the way to float; others are their own compute type.
    const bool rounds = plan_.element_dtype != plan_.input_dtype &&
                        plan_.element_dtype != compute_dtype(plan_.element_dtype);
    args.element_type = static_cast<int16_t>(rounds ? type_index(plan_.element_dtype) : -1);
    args.number = plan_.number;
    args.reduced = plan_.reduced;
    args.kept_dims = static_cast<int16_t>(kept);
    args.outputs = 1;
    args.dims[0] = {};
    for (int d = 0; d < kept; ++d) {
      KeptDim& dim = args.dims[d].kept;
      args.outputs *= plan_.kept_shape[d];
      dim.divider = Divider(std::min(plan_.kept_shape[d], kMaxIndex));
      dim.stride = plan_.kept_input_strides[d];
      for (size_t k = 0; k < kMaxResults; ++k) dim.results[k] = plan_.kept_output_strides[k][d];
    }
    args.kept_size = kept > 0 ? plan_.kept_shape[0] : 1;
    args.reduced_dims = static_cast<int16_t>(plan_.reduced_shape.size());
    args.dims[0].reduced.stride = args.size;
    for (int d = 0; d < args.reduced_dims; ++d) {
      args.dims[d].reduced = {Divider(std::clamp<int64_t>(plan_.reduced_shape[d], 1, kMaxIndex)),
                              plan_.reduced_strides[d]};
    }
    args.reduced_size =
        args.reduced_dims > 0 ? plan_.reduced_shape[0] : std::min<int64_t>(plan_.reduced, 1);
    for (int k = 0; k < plan_.op->num_outputs; ++k) {
      const auto i = static_cast<size_t>(k);
      args.results[i].data = outputs[i];
      args.results[i].type = static_cast<int16_t>(type_index(plan_.output_dtypes[i]));
      args.results[i].size = static_cast<int16_t>(element_size(plan_.output_dtypes[i]));
      args.results[i].result_type = static_cast<int16_t>(type_index(plan_.result_dtypes[i]));
    }
    args.whole_rows = args.element_type < 0;
    args.lanes = 1;
    args.beside = 1;
    args.chunks = 1;
    args.chunk_divider = Divider(1);
    args.partials = nullptr;
    args.tickets = nullptr;
  }

  const void* kernel_of(ReduceForm form) const {
    return kernels_->by_form[static_cast<size_t>(form)];
  }
  static const char* name_of(ReduceForm form) {
    return kReduceFormNames[static_cast<size_t>(form)];
  }

  // Outputs other than along the first kept dim.
  int64_t outer_outputs(const ReduceArguments& args) const { return args.outputs / args.kept_size; }

  // However few the outputs: which form it is decides how elements are combined. (Columns of less
  // than a thread takes have lanes of their own in the outer form; short ones shall not.)
  bool fits_short(const ReduceArguments& args) const {
    return kernel_of(ReduceForm::short_inner) != nullptr && plan_.reduced > 1 &&
           plan_.reduced * std::max<int64_t>(args.size, size_ / 4) <= kShortRow &&
           args.reduced_dims == 1 &&
           (args.dims[0].reduced.stride == args.size || !fits_outer(args) || has_matrices(args) ||
            (args.kept_size < columns_of_thread(args) &&
             short_lanes(plan_.reduced, args.size) == 1));
  }

  // Short columns whose rows follow each other: blocks bring matrices. Where rows are accesses, and
  // not too few at once, the outer form has them in registers.
  bool has_matrices(const ReduceArguments& args) const {
    const int64_t row = args.kept_size * args.size;
    return rows_follow(args) && args.kept_dims > 1 && short_lanes(plan_.reduced, args.size) == 1 &&
           plan_.reduced * row <= kShortBytes / 2 && (row % 16 != 0 || row < 64) &&
           !(row >= 128 && (args.size > 2 || plan_.reduced < 8) && fits_few_rows(args));
  }
  // Whether the rows of a matrix of columns follow each other, of types that kernels are for.
  bool rows_follow(const ReduceArguments& args) const {
    return is_usual(args) && args.reduced_dims == 1 && args.kept_dims > 0 &&
           args.dims[0].kept.stride == args.size &&
           args.dims[0].reduced.stride == args.kept_size * args.size;
  }
  bool is_usual(const ReduceArguments& args) const {
    return args.element_type < 0 && (kernels_->usual_types >> args.type & 1u) != 0;
  }

  void short_inner(ReduceArguments& args) const {
    const bool matrices = has_matrices(args);
    if (matrices) put_columns_last(args);
    const int beside = args.beside;
    const int64_t row = plan_.reduced * beside * args.size;
    choose_slab_dim(row, args);
    args.whole_rows = matrices || (is_usual(args) && args.dims[0].reduced.stride == args.size);
    const int64_t step = args.dims[0].kept.stride;
    // (Matrices that follow each other may have columns at the same banks.)
    const bool follow = args.kept_size == 1 || (step == row && !(matrices && row % 32 == 0));
    args.pitch = static_cast<int32_t>(follow ? row : run_pitch(row, step));
    args.lanes = static_cast<int16_t>(short_lanes(plan_.reduced, args.size));
    // Outputs for all threads of a block once, or several times, or for every multiprocessor.
    const int64_t room =
        args.whole_rows ? args.pitch : (plan_.reduced + plan_.reduced / 32 + 1) * size_;
    const int64_t together = std::max(1, kBlockThreads / (args.lanes * beside));
    int64_t columns = std::max<int64_t>(1, kShortBytes / room);
    if (columns > together) columns = (columns + together / 2) / together * together;
    const int64_t share = args.outputs / beside / (4 * context_.multiprocessors) + 1;
    columns = std::min({columns, std::max(share, kLeastShortBytes / room), args.kept_size});
    args.columns = static_cast<int32_t>(columns);
    const int64_t slabs = (args.kept_size + columns - 1) / columns;
    if (slabs > kMaxIndex) too_large();
    args.column_divider = Divider(slabs);
    args.row_divider = Divider(matrices ? beside : plan_.reduced);
    int block = kBlockThreads;
    while (block > 32 && columns * beside * args.lanes <= block / 2 && columns * room <= 32 * block)
      block /= 2;
    start(matrices ? "short outer" : name_of(ReduceForm::short_inner),
          matrices ? kernels_->short_outer : kernel_of(ReduceForm::short_inner), args,
          slabs * (outer_outputs(args) / beside), block, static_cast<int>(columns * room) + 32);
  }

  // The dim of a matrix's columns behind those that matrices are found along.
  void put_columns_last(ReduceArguments& args) const {
    args.beside = static_cast<int16_t>(args.kept_size);
    const KeptDim columns = args.dims[0].kept;
    for (int d = 1; d < args.kept_dims; ++d) args.dims[d - 1].kept = args.dims[d].kept;
    args.dims[--args.kept_dims].kept = columns;
    args.kept_size = plan_.kept_shape[1];
  }

  // Blocks take outputs along the first kept dim. Where it has too few for one, the dim that fills
  // a block best takes its place.
  void choose_slab_dim(int64_t row, ReduceArguments& args) const {
    const auto size = [&](int d) { return plan_.kept_shape[args.beside == 1 ? d : d + 1]; };
    const auto bytes = [&](int d) { return std::min(size(d) * row, kShortBytes); };
    if (args.kept_dims < 2 || bytes(0) > kShortBytes / 2) return;
    int best = 0;
    for (int d = 1; d < args.kept_dims; ++d) best = bytes(d) > bytes(best) ? d : best;
    std::swap(args.dims[0].kept, args.dims[best].kept);
    args.kept_size = size(best);
  }

  bool fits_outer(const ReduceArguments& args) const {
    const bool index_fits = args.reduced_dims <= 1 || plan_.reduced <= kMaxIndex;
    return kernel_of(ReduceForm::outer) != nullptr && plan_.form == ReduceForm::outer &&
           plan_.reduced > 0 && args.kept_dims > 0 && args.dims[0].kept.stride == args.size &&
           index_fits;
  }

  bool reads_halves(const ReduceArguments& args) const {
    return 2 * args.size == size_ && kernels_->outer_of_halves != nullptr;
  }
  int columns_of_thread(const ReduceArguments& args) const {
    return outer_width(reads_halves(args) ? args.size : size_);
  }

  // Bytes of one access to the columns of a thread, and whether all rows start at boundaries of it.
  int access_of(const ReduceArguments& args) const {
    return std::min(16, columns_of_thread(args) * args.size);
  }
  bool rows_aligned(const ReduceArguments& args) const {
    const int access = access_of(args);
    bool aligned = reinterpret_cast<intptr_t>(args.input) % access == 0;
    for (int d = 1; d < args.kept_dims; ++d)
      aligned = aligned && args.dims[d].kept.stride % access == 0;
    for (int d = 0; d < args.reduced_dims; ++d)
      aligned = aligned && args.dims[d].reduced.stride % access == 0;
    return aligned;
  }

  void outer(ReduceArguments& args) const {
    const bool of_halves = reads_halves(args);
    const int width = columns_of_thread(args);
    const int lanes = outer_lanes(plan_.reduced, args.kept_size, width);
    if (args.reduced_dims == 0) args.dims[0].reduced.stride = 0;
    const bool aligned = rows_aligned(args);
    const bool narrow_element = of_halves || args.size == size_;
    const bool through_windows =
        args.reduced_dims <= 1 && lanes * args.dims[0].reduced.stride % access_of(args) == 0;
    args.whole_rows = args.element_type < 0 && narrow_element && args.reduced_dims <= 2 &&
                      (aligned || through_windows);
    const int margin = args.whole_rows && !aligned ? window_margin(width) : 0;
    const int abreast = threads_abreast(window_threads(args.kept_size, width, margin), lanes);
    const int slots = kBlockThreads / (lanes * abreast);
    args.lanes = static_cast<int16_t>(lanes);
    args.abreast = static_cast<int16_t>(abreast);
    args.columns = abreast * width - margin;
    args.row_divider = Divider(args.columns);
    const int64_t column_blocks = (args.kept_size + args.columns - 1) / args.columns;
    args.column_divider = Divider(column_blocks);
    args.chunk = std::min(chunk_rows(plan_.reduced, kernels_->most_row_chunks),
                          int64_t{kLaneElements} * lanes);
    args.chunks = static_cast<int32_t>((plan_.reduced + args.chunk - 1) / args.chunk);
    args.chunk_divider = Divider(args.chunks);
    args.chunk_lanes = static_cast<int16_t>(chunk_lanes(args.chunks, lanes));
    const int64_t units = outer_outputs(args) * args.chunks;
    if (units > kMaxIndex) too_large();
    split_columns(args, kOuterGroupBits);
    const void* const kernel = of_halves ? kernels_->outer_of_halves : kernel_of(ReduceForm::outer);
    start(name_of(ReduceForm::outer), kernel, args, (units + slots - 1) / slots * column_blocks,
          kBlockThreads, 0);
  }

  // Of two kernels, the one that reads the elements as they are stored; null where neither does.
  const void* of_stored(const ReduceArguments& args, const void* halves, const void* whole) const {
    return reads_halves(args) ? halves : args.size == size_ ? whole : nullptr;
  }
  const void* few_rows_kernel(const ReduceArguments& args) const {
    return of_stored(args, kernels_->few_rows_of_halves, kernels_->few_rows);
  }
  bool fits_few_rows(const ReduceArguments& args) const {
    const int width = columns_of_thread(args);
    return fits_outer(args) && is_usual(args) && few_rows_kernel(args) != nullptr &&
           args.reduced_dims == 1 && args.kept_size >= width && plan_.reduced <= kFewRows &&
           outer_outputs(args) <= kMaxIndex / (args.kept_size / width + 1);
  }

  void few_rows(ReduceArguments& args) const {
    const int width = columns_of_thread(args);
    args.whole_rows = rows_aligned(args) && args.kept_size % width == 0;
    const int64_t per_row = (args.kept_size + width - 1) / width;
    args.row_divider = Divider(per_row);
    args.groups = per_row * outer_outputs(args);
    constexpr int kOfBlock = kGroupsOfFewRows * kBlockThreads;
    start("few rows", few_rows_kernel(args), args, (args.groups + kOfBlock - 1) / kOfBlock,
          kBlockThreads, 0);
  }

  const void* merged_kernel(const ReduceArguments& args) const {
    return of_stored(args, kernels_->merged_of_halves, kernels_->merged);
  }
  int merged_rows_of(const ReduceArguments& args) const {
    return merged_rows(args.kept_size, args.size, columns_of_thread(args), access_of(args));
  }
  // Few columns, where their bits depend on how many they are. (Rows of one or two sectors are read
  // as well without: 8 columns of float32 0.97 of the copy rate and 0.94 merged, 32 of int8 0.62
  // and 0.57, but 16 of bfloat16 0.74 and 0.80.)
  bool fits_merged(const ReduceArguments& args) const {
    const int width = columns_of_thread(args);
    const int64_t row = args.kept_size * args.size;
    return rows_follow(args) && merged_kernel(args) != nullptr &&
           !(args.size != 2 && (row == 32 || row == 64)) &&
           plan_.reduced >= (args.kept_size < width ? kLongNarrow : kLongColumn) &&
           merged_rows_of(args) > 1;
  }

  void merged(ReduceArguments& args) const {
    args.merged = static_cast<int16_t>(merged_rows_of(args));
    args.groups = plan_.reduced / args.merged;
    args.columns = static_cast<int>(args.kept_size);
    args.row_divider = Divider(args.columns);
    args.column_divider = Divider(1);
    const int64_t most = kernels_->most_row_chunks;
    const int64_t least = kMergedBytes / (args.columns * args.merged * args.size);
    const int64_t share = (args.groups + most - 1) / most;
    args.chunk = std::min<int64_t>(std::max(least, share), kLaneElements);
    args.chunks = static_cast<int32_t>((args.groups + args.chunk - 1) / args.chunk);
    args.chunk_divider = Divider(args.chunks);
    const int64_t states = kBlockThreads * std::min(columns_of_thread(args), 4);
    args.chunk_lanes = static_cast<int16_t>(
        std::min<int64_t>({args.chunks, 1 << kMergedGroupBits, states / args.kept_size}));
    split_columns(args, kMergedGroupBits);
    start("merged", merged_kernel(args), args, outer_outputs(args) * args.chunks, kBlockThreads, 0);
  }

  void inner(ReduceArguments& args) const {
    const int64_t per_row = (args.reduced_size + width_ - 1) / width_;
    const int64_t rows = args.reduced_size == 0 ? 0 : plan_.reduced / args.reduced_size;
    args.row_divider = Divider(std::max<int64_t>(per_row, 1));
    args.groups = per_row * rows;
    args.whole_rows = args.whole_rows && args.dims[0].reduced.stride == args.size &&
                      (rows == 1 || args.reduced_size % width_ == 0);
    for (int d = 1; d < args.reduced_dims; ++d)
      args.whole_rows = args.whole_rows && args.dims[d].reduced.stride % 16 == 0;
    if (args.groups > kMaxIndex || args.outputs > kMaxIndex) too_large();
    args.lanes = static_cast<int16_t>(inner_lanes(args.groups, int64_t{width_} * args.size));
    args.chunk =
        chunk_groups(args.groups, int64_t{width_} * args.size, kernels_->most_group_chunks);
    args.chunks =
        static_cast<int32_t>(std::max<int64_t>((args.groups + args.chunk - 1) / args.chunk, 1));
    args.chunk_divider = Divider(args.chunks);
    if (args.chunks > 1) args.lanes = kBlockThreads;
    // Outputs of a warp or less do not meet: their blocks may have any size.
    int block = kBlockThreads;
    if (args.lanes < kBlockThreads) {
      block = 128;
      while (block > 32 &&
             args.outputs * args.lanes < int64_t{2} * block * context_.multiprocessors)
        block /= 2;
    }
    const int64_t together = block / args.lanes;
    split(args, args.outputs, args.outputs * args.chunks);
    start(name_of(ReduceForm::inner), kernel_of(ReduceForm::inner), args,
          (args.outputs + together - 1) / together * args.chunks, block, 0);
  }

  // Note [Groups of chunks]
  void split_columns(ReduceArguments& args, int group_bits) const {
    const int64_t nodes = outer_outputs(args) * chunk_nodes(args.chunks, group_bits);
    split(args, nodes * args.column_divider.divisor, nodes * args.kept_size);
  }
  void split(ReduceArguments& args, int64_t tickets, int64_t states) const {
    if (args.chunks == 1) return;
    const Workspace workspace = workspace_(tickets, states * kernels_->state_bytes);
    args.tickets = workspace.tickets;
    args.partials = workspace.states;
  }

  [[noreturn]] void too_large() const {
    throw PlanError(PlanError::Kind::Runtime, *plan_.op,
                    "expected a reduction that one launch can hold, got " +
                        std::to_string(plan_.outputs) + " outputs of " +
                        std::to_string(plan_.reduced) + " elements");
  }

  void start(const char* name, const void* kernel, ReduceArguments& args, int64_t blocks, int block,
             int shared) const {
    if (blocks > kMaxIndex) too_large();
    launch_kernel(*plan_.op, name, kernel, {static_cast<uint32_t>(blocks), 1}, block, shared, &args,
                  context_);
  }

  const ReducePlan& plan_;
  const WorkspaceSource& workspace_;
  const Context& context_;
  const FormKernels* kernels_ = nullptr;
  int size_ = 1, width_ = 1;
};

}  // namespace

void run_reduction(const ReducePlan& plan, const ReduceKernels& kernels, char* const* outputs,
                   const char* input, const WorkspaceSource& workspace, const Context& context) {
  if (plan.outputs == 0) return;
  Run(plan, kernels, workspace, context).launch(plan.kept_shape.size(), input, outputs);
}

}  // namespace iterlab::cuda
