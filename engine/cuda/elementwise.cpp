// The host side of elementwise kernels: from a plan to the arguments of one launch.
#include "engine/cuda/elementwise_call.h"
#include "engine/cuda/staging.cuh"

#include <cstdlib>
#include <numeric>

namespace iterlab::cuda {
namespace {

class Run : ElementwiseCall {
 public:
  using ElementwiseCall::ElementwiseCall;

  void all() {
    View view;
    view.ndim = plan_.loop_shape.size();
    std::copy(plan_.loop_shape.begin(), plan_.loop_shape.end(), view.sizes);
    for (int i = 0; i < plan_.num_operands; ++i) view.data[i] = sources_[i].data;
    switch (plan_.path) {
      case Path::vectorized:
      case Path::strided:
        return rows(view);
      case Path::tiled:
        return tiled(view);
      case Path::generic:
        return generic(view);
    }
  }

 private:
  // Rows shorter than this go to boxes: here they waste lanes, and some threads of a warp take
  // their row's ends by the element while the others wait.
  static constexpr int64_t kShortRow = 512;

  void rows(const View& view) const {
    const StoredKernels* const stored = stored_kernels();
    const void* const kernel = stored != nullptr ? stored->vectorized : kernels_->strided;
    const int width = stored != nullptr ? stored_width(stored->size) : group_width(size_);
    const bool fits = kernel != nullptr && view.ndim <= kMaxRowDims &&
                      (view.ndim <= 1 || view.sizes[0] >= kShortRow || view.sizes[0] % width == 0);
    if (!fits || !walks_rows(view)) return boxes(view);
    bool at_boundaries = true;
    for (int d = 1; d < view.ndim; ++d)
      at_boundaries = at_boundaries && operand(0).strides[d] % 16 == 0;
    const StoredKernels* const tile = at_boundaries ? nullptr : tile_kernels();
    // A group that is read from two accesses and stored by the element takes longer than elements
    // side by side, or through shared memory.
    if (tile != nullptr && tile->size == 4 && fill_tiles(view, *tile)) return elements(view);
    if (tile != nullptr && tile->size == 2 && !repeats_rows(view)) return boxes(view);
    Nested args;
    fill_nested(view, args);
    // Bytes of the widest store of one group of the output.
    const int64_t element = element_size(operand(0).dtype);
    const int64_t bytes = std::min<int64_t>(16, width * element);
    bool aligned = reinterpret_cast<uintptr_t>(view.data[0]) % static_cast<uintptr_t>(bytes) == 0;
    int64_t rows = 1;
    for (int d = 1; d < view.ndim; ++d) {
      aligned = aligned && operand(0).strides[d] % bytes == 0;
      args.dividers[d] = Divider(std::min<int64_t>(view.sizes[d], INT32_MAX));
      rows *= view.sizes[d];
    }
    args.align = aligned ? 1 : static_cast<int16_t>(bytes / element);
    const int64_t per_row = ceil_div(args.sizes[0] + args.align - 1, width);
    if (view.ndim > 1 && (per_row > INT32_MAX || rows > INT32_MAX / per_row)) return generic(view);
    args.units = per_row * rows;
    args.row_divider = Divider(std::min<int64_t>(per_row, INT32_MAX));
    args.plain = stored != nullptr && view.ndim <= 1 && aligned && starts_at_boundaries(args);
    const int64_t threads = stored != nullptr ? ceil_div(args.units, stored->groups) : args.units;
    launch(stored != nullptr ? "vectorized" : "strided", kernel, args, kMaxRowDims, threads, 1,
           block_threads(threads), 0);
  }

  // Whether an operand's elements along dim 1 lie between those along dim 0: rows alone would bring
  // what other rows need.
  bool interleaves(const View& view) const {
    if (view.ndim < 2 || view.sizes[1] > kLongestShortSide) return false;
    for (int i = plan_.num_outputs; i < plan_.num_operands; ++i) {
      const Dims& strides = operand(i).strides;
      if (reads_memory(i) && std::abs(strides[1]) < std::abs(strides[0]) && strides[1] != 0)
        return true;
    }
    return false;
  }

  // Note [Boxes]
  void boxes(const View& view) const {
    const StoredKernels* const stored = tile_kernels();
    if (stored == nullptr || view.ndim == 0 || view.ndim > kMaxRowDims) return generic(view);
    const bool few_rows = interleaves(view);
    Nested args;
    fill_nested(view, args);
    int64_t sizes[kMaxRowDims];
    for (int d = 0; d < kMaxRowDims; ++d) sizes[d] = d < view.ndim ? view.sizes[d] : 1;
    if (!few_rows) choose_row_dim(view.ndim, box_elements(stored->size), sizes, args);
    int64_t slabs = 1;
    for (int d = 2; d < view.ndim; ++d) {
      slabs *= sizes[d];
      args.dividers[d] = Divider(std::min<int64_t>(sizes[d], INT32_MAX));
    }
    for (int64_t most = box_elements(stored->size); most >= kLeastBox; most /= 2) {
      const auto [columns, rows] = box_sides(sizes, most, few_rows);
      const int64_t shared = box_bytes(args, columns, rows);
      const int64_t along0 = ceil_div(sizes[0], columns), along1 = ceil_div(sizes[1], rows);
      const bool too_many = along0 > INT32_MAX || along1 > INT32_MAX / along0 ||
                            slabs > INT32_MAX / (along0 * along1);
      if (shared == 0 || shared > kMaxSharedBytes || too_many) continue;
      const int64_t blocks = along0 * along1 * slabs;
      if (blocks < 4 * context_.multiprocessors && most > kSmallBox) continue;
      args.units = rows;
      args.row_divider = Divider(columns);
      args.slab_divider = Divider(sizes[0] - (along0 - 1) * columns);
      args.dividers[0] = Divider(along0);
      args.dividers[1] = Divider(along1);
      int block = kBlockThreads;
      while (block > 64 && columns * rows < 16 * block) block /= 2;
      return launch("box", stored->boxes, args, kMaxRowDims, blocks * block, 1, block,
                    static_cast<int>(shared));
    }
    elements(view);
  }

  // Where dim 1 has too few rows to fill a box, the dim that fills it best takes its place.
  void choose_row_dim(int ndim, int64_t most, int64_t* sizes, Nested& args) const {
    const auto elements = [&](int d) { return std::min(sizes[0] * sizes[d], most); };
    if (elements(1) > most / 2) return;
    int best = 1;
    for (int d = 2; d < ndim; ++d) best = elements(d) > elements(best) ? d : best;
    std::swap(sizes[1], sizes[best]);
    for (int i = 0; i < plan_.num_operands; ++i)
      std::swap(args.strides[i][1], args.strides[i][best]);
    args.sizes[1] = sizes[1];
  }

  // Elements of boxes where larger ones would be too few for all multiprocessors, and of the
  // smallest.
  static constexpr int64_t kSmallBox = 1024, kLeastBox = 256;

  // Columns and rows of boxes of `most` elements: whole rows where they are as short as that, all
  // rows where they are few, and all boxes about as large.
  static std::array<int64_t, 2> box_sides(const int64_t* sizes, int64_t most, bool few_rows) {
    if (sizes[0] <= most) {
      // (Four rows start at a word again.)
      const int64_t boxes = ceil_div(sizes[1], most / sizes[0]);
      const int64_t rows = ceil_div(sizes[1], boxes);
      return {sizes[0], rows > 16 ? ceil_div(rows, 4) * 4 : rows};
    }
    const int64_t rows = few_rows ? sizes[1] : 1;
    const int64_t boxes = ceil_div(sizes[0], most / rows);
    return {ceil_div(ceil_div(sizes[0], boxes), 16) * 16, rows};
  }

  // Lanes of a warp that meet in a bank of shared memory, where elements along a row are `step`
  // bytes apart and each lane has a word of results.
  static int bank_conflicts(int64_t step, int64_t size) {
    const int64_t bytes = step * std::max<int64_t>(1, 4 / size);
    return bytes % 4 != 0 ? 1 : static_cast<int>(std::gcd(bytes / 4, int64_t{32}));
  }

  // How each operand is brought, and the bytes of shared memory of all; 0 where one is too large to
  // pay.
  int64_t box_bytes(Nested& args, int64_t columns, int64_t rows) const {
    int64_t shared = 16;
    for (int i = 0; i < plan_.num_operands; ++i) {
      args.rooms[i] = 0;
      KernelOperand& operand = args.operands[i];
      const int64_t column = args.strides[i][0], row = args.strides[i][1], size = operand.size;
      if (operand.access == Access::value) continue;
      const int64_t across = (columns - 1) * column, down = (rows - 1) * row;
      if (i < plan_.num_outputs) {
        if (std::abs(across) + std::abs(down) > kMaxRun) return 0;
        continue;
      }
      if (column < 0 || row < 0) return 0;
      const int64_t loosest = kLoosestBox * columns * rows * size + 64;
      int64_t room = 0, least = INT64_MAX;
      const auto weigh = [&](Access access, int64_t pitch, int64_t runs, int64_t step) {
        const int64_t bytes = aligned_to(static_cast<size_t>(runs * pitch), 16);
        const int64_t weight = bytes * std::max(1, bank_conflicts(step, size) / 8);
        if (bytes > loosest || bytes > kMaxRun || weight >= least) return;
        room = bytes;
        least = weight;
        args.rooms[i] = static_cast<int32_t>(pitch);
        operand.access = access;
      };
      const int64_t by_column = run_pitch(down + size, column);
      weigh(Access::one_run, aligned_to(static_cast<size_t>(across + down + size), 16) + 16, 1,
            column);
      weigh(Access::run_of_row, run_pitch(across + size, row), rows, column);
      weigh(Access::run_of_column, by_column, columns, by_column);
      if (room == 0) return 0;
      shared += room;
    }
    return shared;
  }

  // Bytes that a kernel's 32 bits shall reach.
  static constexpr int64_t kMaxRun = INT32_MAX / 4;
  // What is copied may be so many times what is read of it: beyond, each element has a sector of
  // its own.
  static constexpr int64_t kLoosestBox = 5;

  // Tiles with a side shorter than this would be mostly empty. Boxes hold all of a side up to the
  // longest of the short ones, which other tiles than those of whole vectors take longer for.
  static constexpr int64_t kShortSide = 16, kLongestShortSide = 64;
  // Tiles may be so many times as large as what is in them.
  static constexpr int64_t kEmptiestTiles = 3;
  // What a block may have without asking for more.
  static constexpr int kMaxSharedBytes = 48 << 10;

  // Whether operand i's vectors along loop dim `along` start at 16-byte boundaries.
  static bool has_vectors(const Nested& args, int i, int along) {
    bool aligned = reinterpret_cast<uintptr_t>(args.operands[i].data) % 16 == 0;
    for (int d = 0; d < args.ndim; ++d)
      aligned = aligned && (d == along || args.strides[i][d] % 16 == 0);
    return aligned;
  }

  void tiled(const View& view) const {
    if (view.ndim < 2 || view.ndim > kMaxRowDims || view.sizes[0] < kShortSide ||
        view.sizes[1] < kShortSide || !unit_or_one(0, view)) {
      return boxes(view);
    }
    const StoredKernels* const stored = tile_kernels();
    if (stored == nullptr) return generic(view);
    Nested args;
    fill_nested(view, args);
    const int64_t width = 16 / stored->size;
    bool vectors = stored == stored_kernels() && has_vectors(args, 0, 0) &&
                   view.sizes[0] % width == 0 && view.sizes[1] % width == 0;
    int shared = 0;
    for (int i = plan_.num_outputs; i < plan_.num_operands; ++i) {
      KernelOperand& to = args.operands[i];
      if (to.access == Access::strided) {
        if (operand(i).strides[1] != element_size(operand(i).dtype)) return generic(view);
        to.access = Access::shared;
        vectors = vectors && !is_bool_input(i) && has_vectors(args, i, 1);
        ++shared;
      }
    }
    if (shared == 0) return rows(view);
    const int64_t side = std::min(view.sizes[0], view.sizes[1]);
    const bool suits = vectors && fill_tiles(view, *stored, 2);
    const bool suits_boxes = side <= kLongestShortSide && side % 16 != 0;
    if (!fill_tiles(view, *stored) || (suits_boxes && !suits)) return boxes(view);
    tiles(view, *stored, vectors, shared, args);
  }

  // Whether the view's first two dims leave little of their tiles empty.
  static bool fill_tiles(const View& view, const StoredKernels& stored,
                         int64_t emptiest = kEmptiestTiles) {
    if (view.ndim < 2) return false;
    const int64_t edge0 = tile_edge0(stored.size), edge1 = tile_edge1(stored.size);
    const int64_t along0 = ceil_div(view.sizes[0], edge0) * edge0;
    const int64_t along1 = ceil_div(view.sizes[1], edge1) * edge1;
    return emptiest * view.sizes[0] * view.sizes[1] >= along0 * along1;
  }

  // Whether an operand has the same row for all of dim 1: boxes would bring it again each time.
  bool repeats_rows(const View& view) const {
    for (int i = plan_.num_outputs; view.ndim > 1 && i < plan_.num_operands; ++i) {
      const Dims& strides = operand(i).strides;
      if (reads_memory(i) && strides[0] != 0 && strides[1] == 0) return true;
    }
    return false;
  }

  // Whether every operand is a run, or one element, along the innermost dim.
  bool walks_rows(const View& view) const {
    for (int i = 0; i < plan_.num_operands; ++i) {
      if (!unit_or_one(i, view)) return false;
    }
    return true;
  }

  // What neither rows nor boxes take: in tiles without shared memory, whose elements need no
  // division, where they fill them.
  void elements(const View& view) const {
    const StoredKernels* const stored = tile_kernels();
    if (stored == nullptr || view.ndim > kMaxRowDims || !fill_tiles(view, *stored))
      return generic(view);
    Nested args;
    fill_nested(view, args);
    tiles(view, *stored, false, 0, args);
  }

  void tiles(const View& view, const StoredKernels& stored, bool vectors, int shared,
             Nested& args) const {
    const int64_t edge0 = tile_edge0(stored.size), edge1 = tile_edge1(stored.size);
    const int64_t along0 = ceil_div(view.sizes[0], edge0);
    const int64_t along1 = ceil_div(view.sizes[1], edge1);
    int64_t slabs = 1;
    for (int d = 2; d < view.ndim; ++d) {
      slabs *= view.sizes[d];
      args.dividers[d] = Divider(std::min<int64_t>(view.sizes[d], INT32_MAX));
    }
    const bool too_many =
        along0 > INT32_MAX || along1 > INT32_MAX / along0 || slabs > INT32_MAX / (along0 * along1);
    const int bytes = shared * tile_bytes(stored.size);
    if (bytes > kMaxSharedBytes || too_many) return generic(view);
    args.row_divider = Divider(along0);
    args.slab_divider = Divider(along1);
    launch("tiled", vectors ? stored.tiled : stored.tiled_each, args, kMaxRowDims,
           along0 * along1 * slabs * kBlockThreads, 1, kBlockThreads, bytes);
  }

  // Runs the part of a view that has one index along its last dim.
  View without_last_dim(const View& view, int64_t index) const {
    View part = view;
    --part.ndim;
    for (int i = 0; i < plan_.num_operands; ++i) {
      if (part.data[i] != nullptr) part.data[i] += index * operand(i).strides[part.ndim];
    }
    return part;
  }

  static constexpr int64_t kSlabElements = int64_t{1} << 30;
  static constexpr int64_t kMaxSlabs = 65535;  // of a grid along y

  // Note [Slabs]
  void generic(const View& view) const {
    Nested args;
    if (view.ndim > kMaxLoopDims) return each_of_last_dim(view);
    fill_nested(view, args);
    int64_t elements = 1, spans[kMaxOperands] = {}, slabs = 1, chunks = 1;
    int d = 0;
    for (; d < view.ndim; ++d) {
      int64_t most = kSlabElements / elements;
      for (int i = 0; i < plan_.num_operands; ++i) {
        const int64_t stride = std::abs(args.strides[i][d]);
        if (stride != 0) most = std::min(most, (INT32_MAX - spans[i]) / stride + 1);
      }
      const int64_t size = std::min(view.sizes[d], most);
      for (int i = 0; i < plan_.num_operands; ++i)
        spans[i] += (size - 1) * std::abs(args.strides[i][d]);
      args.dividers[d] = Divider(size);
      if (size < view.sizes[d]) {
        chunks = ceil_div(view.sizes[d], size);
        args.chunk_size = size;
        args.chunk_numel = elements * size;
        args.slab_numel = elements * view.sizes[d];
        ++d;
        break;
      }
      elements *= size;
    }
    args.inner_dims = static_cast<int16_t>(d);
    if (chunks == 1) args.chunk_numel = args.slab_numel = elements;
    for (; d < view.ndim; ++d) {
      slabs *= view.sizes[d];
      args.dividers[d] = Divider(std::min<int64_t>(view.sizes[d], INT32_MAX));
    }
    if (chunks > kMaxSlabs || slabs > kMaxSlabs / chunks) return each_of_last_dim(view);
    args.row_divider = Divider(chunks);
    const int64_t threads = ceil_div(args.chunk_numel, kGenericWidth);
    launch("generic", kernels_->generic, args, kMaxLoopDims, threads, slabs * chunks,
           block_threads(threads), 0);
  }

  void each_of_last_dim(const View& view) const {
    for (int64_t index = 0; index < view.sizes[view.ndim - 1]; ++index)
      generic(without_last_dim(view, index));
  }
};

}  // namespace

void run_elementwise(const Plan& plan, const OpKernels& kernels, const OperandSource* operands,
                     const Number* parameters, const Context& context) {
  if (plan.numel == 0) return;
  Run(plan, kernels, operands, parameters, context).all();
}

}  // namespace iterlab::cuda
