// Huge pages for large new outputs: a fresh result costs more in page faults than in arithmetic.
#pragma once

#include <cstdint>

namespace iterlab {

// Note [Fresh outputs]
// A new tensor of 64 MB is new memory: ATen spends 35 ms on an add of that size where one into an
// existing output takes 6, all of it page faults. Where the kernel hands out huge pages on request
// (transparent_hugepage = madvise, the usual setting), asking for them for outputs of at least
// kHugePagesFrom bytes leaves one fault for every 2 MiB instead of 512. NumPy asks from 4 MiB on
// too. ITERLAB_HUGE_PAGES=0 turns it off; nothing is asked on systems without madvise.
inline constexpr int64_t kHugePagesFrom = int64_t{4} << 20;

// Asks for huge pages for the whole pages within [data, data + bytes).
void advise_huge_pages(void* data, int64_t bytes);

}  // namespace iterlab
