// Memory of large new outputs.
#pragma once

#include <c10/core/Allocator.h>

namespace iterlab {

// Note [Fresh outputs]
// A new tensor of 64 MB is new memory: ATen spends 39 ms on an add of that size where one into an
// existing output takes 15, all of it page faults. For outputs of at least kLargeFrom bytes,
//  - huge pages are asked for where the kernel gives them on request (transparent_hugepage =
//    madvise, the usual setting): one fault for every 2 MiB instead of 512. NumPy asks from 4 MiB
//    on too. ITERLAB_HUGE_PAGES=0 turns it off.
//  - freed memory is kept for the next output of about its size, up to ITERLAB_KEPT_MEMORY MiB
//    (default 512; 0 turns it off). All but the latest 128 MiB of it is marked MADV_FREE: the
//    system may take it back whenever it needs memory, though until then it counts as the
//    process's. (Marked as soon as freed, new outputs of 4 to 16 MiB took up to three times as long
//    as ATen's, whose allocator keeps so much too.)
// On systems without madvise, neither is done.
inline constexpr size_t kLargeFrom = size_t{4} << 20;

// What ITERLAB_KEPT_MEMORY says, in bytes.
size_t most_kept_memory();

// Memory of a large output on the CPU. Any thread may allocate and free.
c10::DataPtr allocate_large(size_t bytes);

}  // namespace iterlab
