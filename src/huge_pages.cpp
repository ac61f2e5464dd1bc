// Huge pages for large new outputs. Note [Fresh outputs]
#include "src/huge_pages.h"

#include <cstdlib>
#include <string_view>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace iterlab {

void advise_huge_pages([[maybe_unused]] void* data, [[maybe_unused]] int64_t bytes) {
#if defined(MADV_HUGEPAGE)
  static const bool enabled = [] {
    const char* const wanted = std::getenv("ITERLAB_HUGE_PAGES");
    return wanted == nullptr || std::string_view(wanted) != "0";
  }();
  if (!enabled || bytes < kHugePagesFrom) return;
  constexpr uintptr_t page = 4096;
  const auto first = (reinterpret_cast<uintptr_t>(data) + page - 1) / page * page;
  const auto end =
      (reinterpret_cast<uintptr_t>(data) + static_cast<uintptr_t>(bytes)) / page * page;
  // A refusal changes nothing but the speed.
  (void)madvise(reinterpret_cast<void*>(first), end - first, MADV_HUGEPAGE);
#endif
}

}  // namespace iterlab
