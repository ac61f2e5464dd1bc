// The host side of elementwise kernels: from a plan to the arguments of one launch.
#include "engine/cuda/elementwise_call.h"

#include <cstdlib>

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
  // Rows that the generic kernel takes: shorter ones waste lanes, and some threads of a warp take
  // their row's ends by the element while the others wait.
  static constexpr int64_t kShortRow = 512;

  void rows(const View& view) const {
    const StoredKernels* const stored = stored_kernels();
    const void* const kernel = stored != nullptr ? stored->vectorized : kernels_->strided;
    const int width = stored != nullptr ? stored_width(stored->size) : group_width(size_);
    Nested args;
    fill_nested(view, args);
    bool fits = kernel != nullptr && view.ndim <= kMaxRowDims &&
                (view.ndim <= 1 || view.sizes[0] >= kShortRow || view.sizes[0] % width == 0);
    for (int i = 0; i < plan_.num_operands; ++i) fits = fits && unit_or_one(i, view);
    if (!fits) return spans(view);
    if (suits_elements(view)) return elements(view);
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

  // Note [Spans]
  void spans(const View& view) const {
    const StoredKernels* const stored = stored_kernels();
    if (stored == nullptr || stored->spans == nullptr || view.ndim == 0 || view.ndim > kMaxRowDims)
      return generic(view);
    Nested args;
    fill_nested(view, args);
    int64_t most = span_elements(stored->size);
    // A long row is walked alone: the next one may be far away.
    const int inner = view.ndim == 1 || view.sizes[0] >= most ? 1 : 2;
    const int64_t numel = inner == 1 ? view.sizes[0] : view.sizes[0] * view.sizes[1];
    int64_t slabs = 1;
    for (int d = inner; d < view.ndim; ++d) {
      slabs *= view.sizes[d];
      args.dividers[d] = Divider(std::min<int64_t>(view.sizes[d], INT32_MAX));
    }
    while (most > kLeastSpan && ceil_div(numel, most) * slabs < 4 * context_.multiprocessors)
      most /= 2;
    int64_t shared = make_room(args, inner, most);
    for (; shared > kMaxSharedBytes && most > kBlockThreads; most /= 2)
      shared = make_room(args, inner, most / 2);
    const int64_t blocks = ceil_div(numel, most);
    if (shared == 0 || shared > kMaxSharedBytes || numel > kSlabElements ||
        slabs > INT32_MAX / blocks) {
      return elements(view);
    }
    args.inner_dims = static_cast<int16_t>(inner);
    args.slab_numel = numel;
    args.units = most;
    args.row_divider = Divider(view.sizes[0]);
    args.slab_divider = Divider(blocks);
    launch("span", stored->spans, args, kMaxRowDims, blocks * slabs * kBlockThreads, 1,
           kBlockThreads, static_cast<int>(shared));
  }

  // Bytes of shared memory for the spans of a block of `elements`; 0 where they are too large to
  // pay.
  int64_t make_room(Nested& args, int inner, int64_t elements) const {
    // A block that ends in another row than it starts in brings whole rows of both.
    const int64_t row = inner == 1 ? std::min(args.sizes[0], elements) : args.sizes[0];
    const int64_t further = inner == 1 ? 0 : ceil_div(elements - 1, row);  // rows after the first
    int64_t shared = 0;
    for (int i = 0; i < plan_.num_operands; ++i) {
      args.rooms[i] = 0;
      const int64_t step = args.strides[i][0], pitch = inner == 1 ? 0 : args.strides[i][1];
      if (std::max(std::abs(step), std::abs(pitch)) > INT32_MAX / 2 / elements) return 0;
      if (i < plan_.num_outputs || args.operands[i].access == Access::value) continue;
      const int64_t span = further * pitch + (row - 1) * step + args.operands[i].size;
      if (step < 0 || pitch < 0 || span > kLoosestSpan * elements * args.operands[i].size) return 0;
      args.rooms[i] = static_cast<int32_t>(aligned_to(static_cast<size_t>(span), 16) + 16);
      shared += args.rooms[i];
    }
    return shared;
  }

  // A span may be so many times what is read of it: beyond, each element has a sector of its own.
  static constexpr int64_t kLoosestSpan = 5;

  // Tiles with a side shorter than this would be mostly empty.
  static constexpr int64_t kShortSide = 16;
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
      return spans(view);
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
    if (!fill_tiles(view, *stored)) return generic(view);
    tiles(view, *stored, vectors, shared, args);
  }

  // Whether the view's first two dims leave little of their tiles empty.
  static bool fill_tiles(const View& view, const StoredKernels& stored) {
    if (view.ndim < 2) return false;
    const int64_t edge0 = tile_edge0(stored.size), edge1 = tile_edge1(stored.size);
    const int64_t along0 = ceil_div(view.sizes[0], edge0) * edge0;
    const int64_t along1 = ceil_div(view.sizes[1], edge1) * edge1;
    return kEmptiestTiles * view.sizes[0] * view.sizes[1] >= along0 * along1;
  }

  // Rows of words that start anywhere: a group that is read from two accesses and stored by the
  // element takes longer than elements side by side.
  bool suits_elements(const View& view) const {
    bool aligned = true;
    for (int d = 1; d < view.ndim; ++d) aligned = aligned && operand(0).strides[d] % 16 == 0;
    if (aligned) return false;
    const StoredKernels* const stored = tile_kernels();
    return stored != nullptr && stored->size == 4 && fill_tiles(view, *stored);
  }

  // What neither rows nor spans take: in tiles without shared memory, whose elements need no
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
