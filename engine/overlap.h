// Memory overlap: whether an output may be written while inputs are read. Full overlap is fine,
// partial is an error.
#pragma once

#include "iterlab/op.h"
#include "iterlab/operand.h"

namespace iterlab {

enum class Overlap : uint8_t {
  None,     // no byte in common
  Full,     // the same elements at the same indices
  Partial,  // some bytes in common
  Unknown,  // the bounded search gave up
};

// Whether two elements of the operand share a byte.
Overlap internal_overlap(const Operand& operand);

// How the memory of two operands overlaps.
Overlap overlap(const Operand& a, const Operand& b);

// Throws where an output overlaps itself, or an input in part. Operands without data are not
// checked.
void check_overlap(const Operands& operands, const OpInfo& op);

}  // namespace iterlab
