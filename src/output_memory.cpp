// Memory of new outputs on the CPU.
#include "src/output_memory.h"

#include "src/large_memory.h"

#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/alloc_cpu.h>

#include <array>
#include <utility>

namespace iterlab {
namespace {

constexpr size_t kStep = 64;  // bytes from one size of blocks to the next
constexpr size_t kSizes = kSmallTo / kStep;
constexpr size_t kMostKept = 8;  // blocks of a size

thread_local bool thread_ends = false;

// The blocks that a thread keeps.
struct KeptBlocks {
  struct OfSize {
    size_t count = 0;
    void* blocks[kMostKept];
  };
  OfSize sizes[kSizes];

  ~KeptBlocks() {
    thread_ends = true;
    for (OfSize& of_size : sizes) {
      while (of_size.count > 0) c10::free_cpu(of_size.blocks[--of_size.count]);
    }
  }
};

// Null at a thread's end, when tensors may still be freed.
KeptBlocks* kept_blocks() {
  static thread_local KeptBlocks blocks;
  return thread_ends ? nullptr : &blocks;
}

template <size_t size>
void free_small(void* block) {
  if (KeptBlocks* const kept = kept_blocks()) {
    KeptBlocks::OfSize& of_size = kept->sizes[size];
    if (of_size.count < kMostKept) {
      of_size.blocks[of_size.count++] = block;
      return;
    }
  }
  c10::free_cpu(block);
}

template <size_t... size>
constexpr std::array<c10::DeleterFnPtr, kSizes> deleters(std::index_sequence<size...>) {
  return {&free_small<size>...};
}

c10::DataPtr allocate_small(size_t bytes) {
  constexpr auto kDeleters = deleters(std::make_index_sequence<kSizes>{});
  const size_t size = (bytes - 1) / kStep;
  void* block = nullptr;
  if (KeptBlocks* const kept = kept_blocks()) {
    KeptBlocks::OfSize& of_size = kept->sizes[size];
    if (of_size.count > 0) block = of_size.blocks[--of_size.count];
  }
  if (block == nullptr) block = c10::alloc_cpu((size + 1) * kStep);
  return {block, block, kDeleters[size], c10::Device(c10::DeviceType::CPU)};
}

class OutputMemory final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    if (bytes >= kLargeFrom) return allocate_large(bytes);
    c10::Allocator* const owner = c10::GetCPUAllocator();
    const bool keeps = keeps_memory_ && 0 < bytes && bytes <= kSmallTo &&
                       owner == c10::GetDefaultCPUAllocator() && !c10::memoryProfilingEnabled();
    return keeps ? allocate_small(bytes) : owner->allocate(bytes);
  }

  void copy_data(void* to, const void* from, size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }

 private:
  const bool keeps_memory_ = most_kept_memory() > 0;
};

}  // namespace

c10::Allocator& output_memory() {
  static auto* const memory = new OutputMemory;  // tensors may outlive every static object
  return *memory;
}

}  // namespace iterlab
