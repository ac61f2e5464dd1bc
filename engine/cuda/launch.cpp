// One kernel launch, checked.
#include "engine/cuda/launch.h"

#include "iterlab/error.h"

#include <cuda_runtime_api.h>

#include <optional>
#include <utility>

namespace iterlab::cuda {
namespace {

thread_local std::optional<std::vector<Launch>> noted;

}  // namespace

std::vector<Launch> note_launches(bool on) {
  std::vector<Launch> before = std::exchange(noted, std::nullopt).value_or(std::vector<Launch>());
  if (on) noted.emplace();
  return before;
}

void launch_kernel(const OpInfo& op, const char* what, const void* kernel, Grid grid, int threads,
                   int shared_bytes, void* arguments, const Context& context) {
  if (noted) [[unlikely]] {
    noted->push_back({what, grid, threads, shared_bytes});
    return;
  }
  cudaLaunchAttribute overlap{};
  overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  overlap.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(grid.x, grid.y);
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.dynamicSmemBytes = static_cast<size_t>(shared_bytes);
  config.stream = static_cast<cudaStream_t>(context.stream);
  config.attrs = &overlap;
  config.numAttrs = context.overlaps ? 1 : 0;
  void* pointers[] = {arguments};
  const cudaError_t error = cudaLaunchKernelExC(&config, kernel, pointers);
  if (error == cudaSuccess) return;
  (void)cudaGetLastError();  // an error that is not sticky must not meet the next caller
  throw PlanError(PlanError::Kind::Runtime, op,
                  std::string("expected the GPU to take its ") + what + " kernel, got '" +
                      cudaGetErrorString(error) + "'");
}

}  // namespace iterlab::cuda
