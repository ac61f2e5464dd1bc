// The plan of a reduction, as a plain value, made without touching data.
#pragma once

#include "iterlab/plan.h"
#include "iterlab/reduce.h"

#include <bitset>

namespace iterlab {

// Which of the reduced and the kept dims is fastest in memory.
enum class ReduceForm : uint8_t {
  inner,        // a reduced dim: a block of elements is reduced along vectors
  outer,        // a kept dim: rows of accumulators, one for each lane of a block
  short_inner,  // a reduced dim, with so few elements for each output that tiles are transposed and
                // reduced as outer
};
inline constexpr std::array kReduceFormNames{"inner", "outer", "short inner"};

// Short inner rows of this many elements that follow one another are not staged.
inline constexpr int64_t kMinDense = 2, kMaxDense = 8;

using DimSet = std::bitset<kMaxDims>;

// The shape half.
template <class Int>
struct BasicReduceShapePlan {
  const OpInfo* op = nullptr;
  DimsOf<Int> shape;  // of the input
  DimSet reduced_dims;
  DimsOf<Int> output_shape;
  DimsOf<Int> output_strides;  // in elements: contiguous
  DType input_dtype = DType::Undefined;
  DType element_dtype =
      DType::Undefined;                   // elements are converted to it first (the dtype argument)
  DType loaded_dtype = DType::Undefined;  // the type in which kernels read elements
  DType accumulate_dtype = DType::Undefined;  // the type that they are collected in
  std::array<DType, kMaxResults> result_dtypes{DType::Undefined, DType::Undefined};
  int variant = 0;               // the formula that the number chooses
  uint32_t resized_outputs = 0;  // bit i: given output i has to be resized
};

struct ReducePlan : BasicReduceShapePlan<int64_t> {
  int64_t outputs = 0;  // number of results
  int64_t reduced = 0;  // number of elements for each
  // Byte strides, fastest dim of the input first, coalesced.
  Dims kept_shape, kept_input_strides;
  std::array<Dims, kMaxResults> kept_output_strides;
  Dims reduced_shape, reduced_strides;
  // Of the tensors that are written: the result dtypes, or those of out=.
  std::array<DType, kMaxResults> output_dtypes{DType::Undefined, DType::Undefined};
  ReduceForm form = ReduceForm::inner;
  double number = 0;    // the reduction's own: a norm's order, a variance's correction
  bool split = false;   // few outputs: the leaves of one output may be shared between threads
  bool staged = false;  // elements go through a buffer in the loaded type
  int64_t bytes = 0;
};

}  // namespace iterlab
