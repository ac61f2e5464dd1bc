// Memory of new outputs on the CPU.
#pragma once

#include <c10/core/Allocator.h>

namespace iterlab {

// Note [Small outputs]
// An aligned allocation of 64 bytes and its release take a sixth of a small call. Each thread keeps
// what it frees of blocks of up to kSmallTo bytes, a few of each size, for its next outputs. The
// blocks are torch's: where another CPU allocator than torch's own is set, or memory is profiled,
// that one is asked each time. ITERLAB_KEPT_MEMORY=0 turns it off.
inline constexpr size_t kSmallTo = 1024;

// The allocator of outputs: small ones by the note above, large ones by Note [Fresh outputs], all
// others from torch's CPU allocator. Any thread may allocate and free.
c10::Allocator& output_memory();

}  // namespace iterlab
