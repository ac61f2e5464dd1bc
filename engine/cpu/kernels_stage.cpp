// The staging kernels of one instruction set: the table that the loops reach casts, gathers and
// scatters through. Compiled once for each capability: Note [One library for each instruction set].
#include "engine/cpu/cast.h"
#include "engine/cpu/gather.h"
#include "engine/cpu/kernel_table.h"
#include "engine/cpu/stream.h"
#include "engine/cpu/transpose.h"

namespace iterlab::cpu {
const StageKernels& stage_kernels();

inline namespace CPU_CAPABILITY {

template <class From, class To>
constexpr CastFn cast_or_null() {
  if constexpr (std::is_same_v<From, To>) {
    return nullptr;
  } else {
    return cast<From, To>;
  }
}

template <class From>
constexpr void set_casts_from(CastFn (&row)[kNumStorageTypes]) {
#define ITERLAB_CAST_TO(type, name, text) row[k##name##Index] = cast_or_null<From, type>();
  ITERLAB_FORALL_STORAGE_TYPES(ITERLAB_CAST_TO)
#undef ITERLAB_CAST_TO
}

template <int kWidth>
constexpr void set_moves(StageKernels& kernels) {
  constexpr int kIndex = width_index(kWidth);
  kernels.gather_rows[kIndex] = gather_rows<kWidth>;
  kernels.gather_strided[kIndex] = gather_strided<kWidth>;
  kernels.gather_transposed[kIndex] = gather_transposed<kWidth>;
  kernels.scatter_rows[kIndex] = scatter_rows<kWidth>;
  kernels.scatter_strided[kIndex] = scatter_strided<kWidth>;
  kernels.scatter_transposed[kIndex] = scatter_transposed<kWidth>;
  kernels.fill[kIndex] = fill<kWidth>;
}

constexpr StageKernels make_stage_kernels() {
  StageKernels kernels{};
#define ITERLAB_CAST_FROM(type, name, text) set_casts_from<type>(kernels.cast[k##name##Index]);
  ITERLAB_FORALL_STORAGE_TYPES(ITERLAB_CAST_FROM)
#undef ITERLAB_CAST_FROM
  set_moves<1>(kernels);
  set_moves<2>(kernels);
  set_moves<4>(kernels);
  set_moves<8>(kernels);
  set_moves<16>(kernels);
  kernels.stream_rows = stream_rows;
  kernels.stream_fence = stream_fence;
  return kernels;
}

constexpr StageKernels kStageKernels = make_stage_kernels();

}  // namespace CPU_CAPABILITY

const StageKernels& stage_kernels() { return kStageKernels; }

}  // namespace iterlab::cpu
