// The current device, and memory from PyTorch's caching allocator.
#include "src/cuda/device.h"

#include <ATen/cuda/EmptyTensor.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>

#include <atomic>

namespace iterlab::cuda {
namespace {

// Asked of the driver once for each device. (ATen keeps the same, behind headers that need all of
// the CUDA toolkit.)
int multiprocessors(c10::DeviceIndex device) {
  static std::atomic<int> known[C10_COMPILE_TIME_MAX_GPUS];
  std::atomic<int>& count = known[device];
  if (count.load(std::memory_order_relaxed) == 0) {
    int value = 0;
    C10_CUDA_CHECK(cudaDeviceGetAttribute(&value, cudaDevAttrMultiProcessorCount, device));
    count.store(value, std::memory_order_relaxed);
  }
  return count.load(std::memory_order_relaxed);
}

}  // namespace

Context current_context() {
  const c10::cuda::CUDAStream stream = c10::cuda::getCurrentCUDAStream();
  return {stream.stream(), multiprocessors(stream.device_index())};
}

at::Tensor empty_cuda(const Dims& sizes, const Dims& strides, DType dtype, at::Device device) {
  return at::Tensor(
      at::detail::empty_strided_cuda(as_sizes(sizes), as_sizes(strides), dtype, device));
}

}  // namespace iterlab::cuda
