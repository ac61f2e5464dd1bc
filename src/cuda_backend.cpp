// The CUDA backend, or its absence.
#include "src/cuda_backend.h"

namespace iterlab {
namespace {

CudaBackend loaded;

void require(const OpInfo& op) {
  TORCH_CHECK_NOT_IMPLEMENTED(loaded.call != nullptr, "iterlab::", op.name,
                              ": expected operands on the CPU, got one on CUDA: this iterlab was "
                              "built without CUDA kernels");
}

}  // namespace

void set_cuda_backend(const CudaBackend& backend) { loaded = backend; }

at::Tensor call_cuda(const OpInfo& op, const Arguments& arguments, Output output) {
  require(op);
  return loaded.call(op, arguments, output);
}

ReduceResults reduce_cuda(const OpInfo& op, const at::Tensor& input,
                          const ReduceArguments& arguments, const GivenResults& given) {
  require(op);
  return loaded.reduce(op, input, arguments, given);
}

std::vector<cuda::Launch> note_cuda_launches(bool on) {
  return loaded.note_launches == nullptr ? std::vector<cuda::Launch>() : loaded.note_launches(on);
}

}  // namespace iterlab
