// The call template of reductions on CUDA.
#pragma once

#include "src/reduction_call.h"

namespace iterlab::cuda {

ReduceResults reduce(const OpInfo& op, const at::Tensor& input,
                     const iterlab::ReduceArguments& arguments, const GivenResults& given);

}  // namespace iterlab::cuda
