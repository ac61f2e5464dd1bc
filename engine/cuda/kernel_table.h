// The CUDA kernels, as a table of entry points. The host loops launch them; they know neither
// operators nor layouts beyond their arguments.
#pragma once

#include "iterlab/dtype.h"
#include "iterlab/plan.h"
#include "iterlab/reduce_plan.h"

namespace iterlab::cuda {

// The kernels of one operator in one compute type for operands that are stored in given types, by
// TypeIndex: the inputs (bool inputs aside), and the output.
struct StoredKernels {
  int input, output;
  int size;                // bytes of an input's element
  int groups;              // that one thread of the vectorized kernel takes
  const void* vectorized;  // null: no such kernels
  const void* tiled;       // whole vectors at boundaries
  const void* tiled_each;  // any others, also of several types:
  uint32_t tile_inputs;    // these, by TypeIndex
  const void* boxes;       // as these, of several types
};
inline constexpr int kMaxStored = 3;

// The kernels of one operator in one compute type. Null: the operator does not compute the type, or
// (strided, tiled) such calls take the generic kernel.
struct ElementwiseKernels {
  StoredKernels stored[kMaxStored];  // the first: of the compute type
  const void* strided;
  const void* generic;
};

// By compute type.
struct OpKernels {
  ElementwiseKernels by_type[kNumComputeTypes];
};

// The kernels of one reduction formula for elements of one compute type, by form. Null: not for
// this type, or (outer, short) taken by the inner kernel.
struct FormKernels {
  const void* by_form[kReduceFormNames.size()];
  const void* outer_of_halves;  // outer, of elements stored in half of their compute type's size
  const void* merged;           // few long columns: Note [Merged rows]
  const void* merged_of_halves;
  const void* short_outer;  // matrices of short columns
  const void* few_rows;     // many short columns; not of bytes, for which outer is faster
  const void* few_rows_of_halves;
  uint32_t usual_types;   // by TypeIndex: those that kernels are compiled for
  int state_bytes;        // of a partial state
  int most_group_chunks;  // of one output, inner
  int most_row_chunks;    // the same, outer
};

struct ReduceVariant {
  FormKernels by_type[kNumComputeTypes];
};

struct ReduceKernels {
  const ReduceVariant* variants[kMaxVariants];
};

// Operators are in the order of iterlab/ops.h.
struct KernelTable {
  const OpKernels* const* elementwise;
  const ReduceKernels* const* reduce;
};

const KernelTable& kernel_table();

}  // namespace iterlab::cuda
