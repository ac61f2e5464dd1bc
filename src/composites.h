// The composites: operators that are written from others of the table. What is known of each, for
// the package's functions, the documentation and the stubs.
#pragma once

#include <torch/library.h>

#include <string>
#include <vector>

namespace iterlab {

struct CompositeInfo {
  const char* name;
  const char* call;        // as a page shows it: "clamp(input, min=None, max=None)"
  const char* doc;         // one sentence, in terms of the argument names
  const char* torch_name;  // the twin under `torch.`
  bool has_out;
  bool has_inplace;
};

// In the order of the documentation.
const std::vector<CompositeInfo>& composite_table();

// max and min of two tensors, for the file that registers reductions of these names.
void register_extremes_of_two(torch::Library& library);

}  // namespace iterlab
