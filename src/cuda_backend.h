// The CUDA backend as the rest of the PyTorch door sees it: what libiterlab_cuda supplies.
#pragma once

#include "engine/cuda/launch_note.h"
#include "src/call.h"
#include "src/reduction_call.h"

namespace iterlab {

// Note [The CUDA library]
// CUDA kernels, and what needs libtorch_cuda, are in a library of their own, so that one build of
// the others serves machines without it. The dispatcher's CUDA kernels are registered here with the
// rest; they call what libiterlab_cuda hands over when it is loaded, and without it say so.
struct CudaBackend {
  at::Tensor (*call)(const OpInfo& op, const Arguments& arguments, Output output) = nullptr;
  ReduceResults (*reduce)(const OpInfo& op, const at::Tensor& input,
                          const ReduceArguments& arguments, const GivenResults& given) = nullptr;
  std::vector<cuda::Launch> (*note_launches)(bool on) = nullptr;
};
void set_cuda_backend(const CudaBackend& backend);

// The call templates on CUDA. NotImplementedError where there is no CUDA library.
at::Tensor call_cuda(const OpInfo& op, const Arguments& arguments, Output output);
ReduceResults reduce_cuda(const OpInfo& op, const at::Tensor& input,
                          const ReduceArguments& arguments, const GivenResults& given);

// Note [Noting launches]. Without a CUDA library, nothing is noted.
std::vector<cuda::Launch> note_cuda_launches(bool on);

}  // namespace iterlab
