// Every built-in operator, in the order of the kernel tables.
#pragma once

#include "iterlab/ops/activation.h"
#include "iterlab/ops/activation_backward.h"
#include "iterlab/ops/binary.h"
#include "iterlab/ops/binary_math.h"
#include "iterlab/ops/comparison.h"
#include "iterlab/ops/data.h"
#include "iterlab/ops/elementary.h"
#include "iterlab/ops/integer.h"
#include "iterlab/ops/reduce.h"
#include "iterlab/ops/rounding.h"
#include "iterlab/ops/special.h"
#include "iterlab/ops/ternary.h"
#include "iterlab/ops/unary.h"

namespace iterlab::ops {

template <class... Lists>
struct Join;
template <class... Ops>
struct Join<OpList<Ops...>> {
  using type = OpList<Ops...>;
};
template <class... A, class... B, class... Rest>
struct Join<OpList<A...>, OpList<B...>, Rest...> : Join<OpList<A..., B...>, Rest...> {};

using ElementwiseOps =
    Join<UnaryOps, RoundingOps, ElementaryOps, SpecialOps, ActivationOps, ActivationBackwardOps,
         BinaryOps, BinaryMathOps, IntegerOps, ComparisonOps, TernaryOps, DataOps>::type;
using ReduceOps = Join<SumOps, ExtremeOps, PositionOps, TruthOps, MomentOps, NormOps>::type;
using AllOps = Join<ElementwiseOps, ReduceOps>::type;
static_assert(AllOps::have_names_of_their_own(), "two operators have one name");

}  // namespace iterlab::ops
