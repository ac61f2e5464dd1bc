// Memory that reductions use between blocks, kept for each stream.
#include "src/cuda/workspace.h"

#include <ATen/cuda/EmptyTensor.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGraphsC10Utils.h>
#include <c10/cuda/CUDAStream.h>

#include <algorithm>
#include <map>
#include <mutex>

namespace iterlab::cuda {
namespace {

at::Tensor new_bytes(int64_t bytes, at::Device device) {
  return at::Tensor(at::detail::empty_strided_cuda({bytes}, {1}, at::kByte, device));
}

at::Tensor new_tickets(int64_t count, const c10::cuda::CUDAStream& stream) {
  const int64_t bytes = count * static_cast<int64_t>(sizeof(uint32_t));
  at::Tensor tickets = new_bytes(bytes, stream.device());
  C10_CUDA_CHECK(
      cudaMemsetAsync(tickets.mutable_data_ptr(), 0, static_cast<size_t>(bytes), stream.stream()));
  return tickets;
}

struct Kept {
  at::Tensor tickets, states;
};

// Never destroyed: the CUDA driver may be gone before static objects are.
Kept& kept_for(const c10::cuda::CUDAStream& stream) {
  static std::mutex mutex;
  static auto* const all = new std::map<std::pair<c10::DeviceIndex, cudaStream_t>, Kept>;
  const std::lock_guard lock(mutex);
  return (*all)[{stream.device_index(), stream.stream()}];
}

}  // namespace

// Note [Workspaces]
// Launches on one stream follow each other, so that they share tickets and states. A captured graph
// may be replayed on any stream, beside others: it gets memory of its own, from the graph's pool,
// and a memset of the tickets.
Workspace current_workspace(int64_t tickets, int64_t state_bytes, at::Tensor (&keep)[2]) {
  const c10::cuda::CUDAStream stream = c10::cuda::getCurrentCUDAStream();
  if (c10::cuda::currentStreamCaptureStatusMayInitCtx() != c10::cuda::CaptureStatus::None) {
    keep[0] = new_tickets(tickets, stream);
    keep[1] = new_bytes(state_bytes, stream.device());
  } else {
    Kept& kept = kept_for(stream);
    const int64_t ticket_bytes = tickets * static_cast<int64_t>(sizeof(uint32_t));
    if (!kept.tickets.defined() || kept.tickets.numel() < ticket_bytes)
      kept.tickets = new_tickets(std::max<int64_t>(tickets, 4096), stream);
    if (!kept.states.defined() || kept.states.numel() < state_bytes)
      kept.states = new_bytes(std::max<int64_t>(state_bytes, 1 << 20), stream.device());
    keep[0] = kept.tickets;
    keep[1] = kept.states;
  }
  return {static_cast<uint32_t*>(keep[0].mutable_data_ptr()),
          static_cast<char*>(keep[1].mutable_data_ptr())};
}

}  // namespace iterlab::cuda
