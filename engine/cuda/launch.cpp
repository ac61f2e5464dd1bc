// One kernel launch, checked.
#include "engine/cuda/launch.h"

#include "iterlab/error.h"

#include <cuda_runtime_api.h>

namespace iterlab::cuda {

void launch_kernel(const OpInfo& op, const char* what, const void* kernel, Grid grid, int threads,
                   int shared_bytes, void* arguments, const Context& context) {
  void* pointers[] = {arguments};
  const cudaError_t error = cudaLaunchKernel(
      kernel, dim3(grid.x, grid.y), dim3(static_cast<unsigned>(threads)), pointers,
      static_cast<size_t>(shared_bytes), static_cast<cudaStream_t>(context.stream));
  if (error == cudaSuccess) return;
  (void)cudaGetLastError();  // an error that is not sticky must not meet the next caller
  throw PlanError(PlanError::Kind::Runtime, op,
                  std::string("expected the GPU to take its ") + what + " kernel, got '" +
                      cudaGetErrorString(error) + "'");
}

}  // namespace iterlab::cuda
