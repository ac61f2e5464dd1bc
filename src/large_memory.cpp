// Memory of large new outputs: Note [Fresh outputs].
#include "src/large_memory.h"

#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <mutex>
#include <pthread.h>
#include <string_view>
#include <unordered_map>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace iterlab {
namespace {

struct Block {
  void* data;
  size_t bytes;
  c10::Allocator* owner;
  bool offered = false;  // to the system
};

#if defined(MADV_HUGEPAGE) && defined(MADV_FREE)
// Of the whole pages within a block. A refusal changes nothing but the speed.
void advise(const Block& block, int advice) {
  constexpr uintptr_t kPage = 4096;
  const auto begin = reinterpret_cast<uintptr_t>(block.data);
  const uintptr_t first = (begin + kPage - 1) / kPage * kPage;
  const uintptr_t end = (begin + block.bytes) / kPage * kPage;
  (void)madvise(reinterpret_cast<void*>(first), end - first, advice);
}
void ask_for_huge_pages(const Block& block) {
  static const bool wanted = [] {
    const char* const value = std::getenv("ITERLAB_HUGE_PAGES");
    return value == nullptr || std::string_view(value) != "0";
  }();
  if (wanted) advise(block, MADV_HUGEPAGE);
}
void offer_to_system(const Block& block) { advise(block, MADV_FREE); }
constexpr size_t kDefaultKept = 512;
#else
void ask_for_huge_pages(const Block&) {}
void offer_to_system(const Block&) {}
constexpr size_t kDefaultKept = 0;
#endif

// Freed memory that is not offered to the system: Note [Fresh outputs].
constexpr size_t kMostWarm = size_t{128} << 20;

class LargeMemory {
 public:
  c10::DataPtr allocate(size_t bytes) {
    c10::Allocator* const owner = c10::GetCPUAllocator();
    // An allocator whose memory is more than its address, or one whose memory is being counted.
    if (owner->raw_deleter() == nullptr || c10::memoryProfilingEnabled())
      return owner->allocate(bytes);
    const std::scoped_lock lock(mutex_);
    Block block = take(bytes, owner);
    if (block.data == nullptr) {
      block = {allocate_from(*owner, bytes), bytes, owner};
      ask_for_huge_pages(block);
    }
    used_.emplace(block.data, block);
    return {block.data, block.data, &free, c10::Device(c10::DeviceType::CPU)};
  }

  // A process may be forked while another thread is at work here: the child has its own copy of
  // this object, which must then be in order and unlocked.
  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }

 private:
  static void free(void* data);

  // A kept block that is not much larger than asked for, of equal ones the latest; or none.
  Block take(size_t bytes, const c10::Allocator* owner) {
    auto best = kept_.end();
    for (auto it = kept_.begin(); it != kept_.end(); ++it) {
      const bool fits = it->owner == owner && it->bytes >= bytes && it->bytes - bytes <= bytes / 4;
      if (fits && (best == kept_.end() || it->bytes <= best->bytes)) best = it;
    }
    if (best == kept_.end()) return {nullptr, 0, nullptr};
    const Block block = *best;
    kept_.erase(best);
    kept_bytes_ -= block.bytes;
    if (!block.offered) warm_bytes_ -= block.bytes;
    return block;
  }

  void* allocate_from(c10::Allocator& owner, size_t bytes) {
    try {
      return owner.raw_allocate(bytes);
    } catch (const c10::Error&) {  // perhaps for what is kept here
      drop_down_to(0);
      return owner.raw_allocate(bytes);
    }
  }

  void keep(void* data) {
    const std::scoped_lock lock(mutex_);
    Block block = used_.extract(data).mapped();
    if (block.bytes > most_kept_) return block.owner->raw_deallocate(block.data);
    block.offered = false;
    kept_.push_back(block);
    kept_bytes_ += block.bytes;
    warm_bytes_ += block.bytes;
    drop_down_to(most_kept_);
    for (auto it = kept_.begin(); warm_bytes_ > kMostWarm; ++it) {
      if (it->offered) continue;
      offer_to_system(*it);
      it->offered = true;
      warm_bytes_ -= it->bytes;
    }
  }

  // The oldest first.
  void drop_down_to(size_t bytes) {
    while (kept_bytes_ > bytes) {
      const Block& oldest = kept_.front();
      kept_bytes_ -= oldest.bytes;
      if (!oldest.offered) warm_bytes_ -= oldest.bytes;
      oldest.owner->raw_deallocate(oldest.data);
      kept_.pop_front();
    }
  }

  const size_t most_kept_ = most_kept_memory();
  std::mutex mutex_;
  std::unordered_map<void*, Block> used_;
  std::deque<Block> kept_;  // the oldest first
  size_t kept_bytes_ = 0;
  size_t warm_bytes_ = 0;  // of those that are not offered to the system
};

LargeMemory& the_memory() {
  static auto* const memory = [] {
    pthread_atfork([] { the_memory().lock(); }, [] { the_memory().unlock(); },
                   [] { the_memory().unlock(); });
    return new LargeMemory;  // tensors may outlive every static object
  }();
  return *memory;
}

void LargeMemory::free(void* data) { the_memory().keep(data); }

}  // namespace

size_t most_kept_memory() {
  const char* const value = std::getenv("ITERLAB_KEPT_MEMORY");
  if (value == nullptr) return kDefaultKept << 20;
  uint64_t mebibytes = 0;
  const char* const end = value + std::strlen(value);
  const auto [rest, error] = std::from_chars(value, end, mebibytes);
  TORCH_CHECK_VALUE(error == std::errc() && rest == end && mebibytes < uint64_t{1} << 40,
                    "iterlab: expected ITERLAB_KEPT_MEMORY to be a number of MiB, got ", value);
  return size_t{mebibytes} << 20;
}

c10::DataPtr allocate_large(size_t bytes) { return the_memory().allocate(bytes); }

}  // namespace iterlab
