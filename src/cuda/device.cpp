// The current device, and memory from PyTorch's caching allocator.
#include "src/cuda/device.h"

#include "engine/cuda/kernel_table.h"

#include <ATen/cuda/EmptyTensor.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>

#include <cstdlib>
#include <mutex>
#include <string_view>

namespace iterlab::cuda {
namespace {

struct DeviceFacts {
  int multiprocessors = 1;
  bool overlaps = false;
};

// Whether launches may overlap: what the current device runs was compiled to wait, which it then
// can, and the switch ITERLAB_CUDA_OVERLAP is not 0. Note [Overlapping launches]
bool may_overlap() {
  const char* const value = std::getenv("ITERLAB_CUDA_OVERLAP");
  if (value != nullptr && std::string_view(value) == "0") return false;
  constexpr int kFirst = 90;  // compute capability, times ten
  cudaFuncAttributes any_kernel;
  C10_CUDA_CHECK(cudaFuncGetAttributes(
      &any_kernel, kernel_table().elementwise[0]->by_type[kFloatIndex].generic));
  return any_kernel.ptxVersion >= kFirst;
}

// Asked of the driver once for each device. (ATen keeps some of it, behind headers that need all of
// the CUDA toolkit.)
const DeviceFacts& facts_of(c10::DeviceIndex device) {
  static std::once_flag known[C10_COMPILE_TIME_MAX_GPUS];
  static DeviceFacts facts[C10_COMPILE_TIME_MAX_GPUS];
  std::call_once(known[device], [&] {
    C10_CUDA_CHECK(cudaDeviceGetAttribute(&facts[device].multiprocessors,
                                          cudaDevAttrMultiProcessorCount, device));
    facts[device].overlaps = may_overlap();
  });
  return facts[device];
}

}  // namespace

Context current_context() {
  const c10::cuda::CUDAStream stream = c10::cuda::getCurrentCUDAStream();
  const DeviceFacts& facts = facts_of(stream.device_index());
  return {stream.stream(), facts.multiprocessors, facts.overlaps};
}

at::Tensor empty_cuda(const Dims& sizes, const Dims& strides, DType dtype, at::Device device) {
  return at::Tensor(
      at::detail::empty_strided_cuda(as_sizes(sizes), as_sizes(strides), dtype, device));
}

}  // namespace iterlab::cuda
