// The operators of this build, as data.
#include "engine/op_table.h"

#include "iterlab/ops.h"

namespace iterlab {

std::span<const OpInfo> op_table() { return ops::AllOps::infos; }

const OpInfo* find_op(std::string_view name) {
  for (const OpInfo& op : op_table()) {
    if (op.name == name) return &op;
  }
  return nullptr;
}

int kernel_index(const OpInfo& op) {
  const auto index = static_cast<int>(&op - ops::AllOps::infos.data());
  return op.kind == OpKind::Elementwise ? index : index - ops::ElementwiseOps::size;
}

}  // namespace iterlab
