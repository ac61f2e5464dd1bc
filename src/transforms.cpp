// All the rules of an overload.
#include "src/transforms.h"

namespace iterlab {

void register_transforms(const OpInfo& op, Variant variant, const c10::OperatorName& name) {
  register_vmap(op, variant, name);
  register_functionalization(op, variant, name);
  register_autocast(op, variant, name);
}

}  // namespace iterlab
