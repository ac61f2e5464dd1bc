// Reducers: what a reduction is apart from its formula, and the canonical order in which elements
// are combined.
#pragma once

#include "iterlab/op.h"

namespace iterlab {

// Note [Same bits]
// A reduction combines the elements of one output in an order that is a function of their number
// alone, so that the result has the same bits for any number of threads, on any run, and whatever
// the other outputs of the batch are. Elements are numbered in iteration order, the reduced dim
// with the smallest stride fastest, and
//   - cut into blocks of kBlock elements; element i of a block goes to lane i % kLanes, in order;
//   - the lanes of a block are folded in halves: lane l with l + 8, then l + 4, l + 2, l + 1;
//   - blocks are combined pairwise: neighbours, then neighbours of those, as a binary counter
//   carries.
// Formulas that are exact (integers, truth values, positions) give the same bits in any order, and
// have one lane. The lanes are what SIMD needs, and the tree bounds the rounding error by about
// kBlock / kLanes + log2(blocks) steps. Every loop follows this order: the inner form keeps a
// block's lanes in vectors; the outer form has a row of accumulators for each lane; threads take
// whole leaves of kLeafBlocks blocks, a subtree of the counter.
inline constexpr int64_t kLanes = 16;
inline constexpr int64_t kBlock = 1024;
inline constexpr int64_t kLeafBlocks = 64;
inline constexpr int64_t kLeaf = kBlock * kLeafBlocks;

// Base of reductions over one tensor. A definition states what differs, names its formula
// (reduce_formulas.h), and has
//   template <class V> static void project(const V* total, double count, double number, V*
//   results);
// from the accumulated components to the results; the default is the first component.
struct Reduction {
  static constexpr OpKind kind = OpKind::Reduction;
  static constexpr int num_inputs = 1;
  static constexpr int num_outputs = 1;
  static constexpr std::array inputs{"input"};
  static constexpr uint32_t promoted_inputs = 1;
  static constexpr uint32_t bool_inputs = 0;
  static constexpr std::array<Parameter, 0> parameters{};
  static constexpr Promotion promotion = Promotion::Default;
  static constexpr DTypeSet dtypes = kAllButFloat8;
  static constexpr uint8_t variants = kFunctional | kOut;
  static constexpr bool moves_bits = false;
  static constexpr double cost = 1;
  static constexpr ReduceFacts facts{};
  template <class V>
  ITERLAB_FN static void project(const V* total, double, double, V* results) {
    results[0] = total[0];
  }
};

}  // namespace iterlab
