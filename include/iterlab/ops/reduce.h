// Reductions. To add one: a struct, and its name in one of the lists at the end.
#pragma once

#include "iterlab/reduce_formulas.h"

#include <tuple>

namespace iterlab::ops {

struct Sum : Reduction {
  using Formula = formulas::Sum;
  static constexpr auto name = "sum";
  static constexpr auto doc =
      "Sum of the elements along dim. Integers and bool are summed in int64.";
  static constexpr AutocastPolicy autocast{.cuda = Autocast::Float32Result};
  static constexpr ReduceFacts facts{.reads_halves = true};
};

struct NanSum : Reduction {
  using Formula = formulas::NanSum;
  static constexpr auto name = "nansum";
  static constexpr auto doc = "Sum of the elements along dim that are not NaN.";
  static constexpr DTypeSet dtypes = kReal;
  static constexpr ReduceFacts facts{
      .dtype_is_runtime = true, .skips_nan = true, .reads_halves = true};
};

struct Mean : Reduction {
  using Formula = formulas::Sum;
  static constexpr auto name = "mean";
  static constexpr auto doc = "Sum of the elements along dim, divided by their number.";
  static constexpr DTypeSet dtypes = kFloatingAndComplex;
  static constexpr ReduceFacts facts{
      .dtype_is_runtime = true, .rounds_last = true, .reads_halves = true};
  template <class V>
  ITERLAB_FN static void project(const V* total, double count, double, V* results) {
    results[0] = reducing::divide(total[0], reducing::filled<V>(count));
  }
};

struct NanMean : Reduction {
  using Formula = formulas::NanMean;
  static constexpr auto name = "nanmean";
  static constexpr auto doc = "Mean of the elements along dim that are not NaN.";
  static constexpr DTypeSet dtypes = kFloating;
  static constexpr ReduceFacts facts{.dtype_is_runtime = true};
  template <class V>
  ITERLAB_FN static void project(const V* total, double, double, V* results) {
    results[0] = reducing::divide(total[0], total[1]);
  }
};

struct Prod : Reduction {
  using Formula = formulas::Product;
  static constexpr auto name = "prod";
  static constexpr auto doc =
      "Product of the elements along dim. Integers and bool are multiplied in int64.";
  static constexpr AutocastPolicy autocast{.cuda = Autocast::Float32Result,
                                           .cpu = Autocast::Float32};
};

struct CountNonzero : Reduction {
  using Formula = formulas::CountNonzero;
  static constexpr auto name = "count_nonzero";
  static constexpr auto doc = "How many elements along dim are not zero.";
  static constexpr ReduceFacts facts{.schema = ReduceSchema::Dims,
                                     .accumulate = Accumulate::Count,
                                     .results = {ResultDType::Index}};
};

// Base of the extremes: values of the elements' own dtype.
struct Extreme : Reduction {
  static constexpr DTypeSet dtypes = kReal;
  static constexpr ReduceFacts facts{.schema = ReduceSchema::Dims,
                                     .accumulate = Accumulate::Native,
                                     .results = {ResultDType::Element},
                                     .of_nothing = OfNothing::Error,
                                     .exact_out = true,
                                     .reads_halves = true};
};

struct Amax : Extreme {
  using Formula = formulas::Maximum;
  static constexpr auto name = "amax";
  static constexpr auto doc = "The largest element along dim; NaN where there is one.";
};

struct Amin : Extreme {
  using Formula = formulas::Minimum;
  static constexpr auto name = "amin";
  static constexpr auto doc = "The smallest element along dim; NaN where there is one.";
};

struct FullExtreme : Extreme {
  static constexpr ReduceFacts facts{.schema = ReduceSchema::Full,
                                     .accumulate = Accumulate::Native,
                                     .results = {ResultDType::Element},
                                     .of_nothing = OfNothing::Error,
                                     .exact_out = true,
                                     .reads_halves = true};
};

struct Max : FullExtreme {
  using Formula = formulas::Maximum;
  static constexpr auto name = "max";
  static constexpr auto doc = "The largest of all elements; NaN where there is one.";
};

struct Min : FullExtreme {
  using Formula = formulas::Minimum;
  static constexpr auto name = "min";
  static constexpr auto doc = "The smallest of all elements; NaN where there is one.";
};

struct AminMax : Extreme {
  using Formula = formulas::MinimumAndMaximum;
  static constexpr auto name = "aminmax";
  static constexpr auto doc = "The smallest and the largest element along dim.";
  static constexpr int num_outputs = 2;
  static constexpr ReduceFacts facts{.schema = ReduceSchema::KeywordDims,
                                     .accumulate = Accumulate::Native,
                                     .results = {ResultDType::Element, ResultDType::Element},
                                     .output_names = {"min", "max"},
                                     .of_nothing = OfNothing::Error,
                                     .exact_out = true};
  template <class V>
  ITERLAB_FN static void project(const V* total, double, double, V* results) {
    results[0] = total[0];
    results[1] = total[1];
  }
};

// Base of max and min along dim: values and positions.
struct ExtremeAndPosition : Extreme {
  static constexpr int num_outputs = 2;
  static constexpr double cost = 2;
  static constexpr ReduceFacts facts{.overload = "dim",
                                     .schema = ReduceSchema::RequiredDims,
                                     .accumulate = Accumulate::Native,
                                     .results = {ResultDType::Element, ResultDType::Index},
                                     .output_names = {"values", "indices"},
                                     .of_nothing = OfNothing::Error,
                                     .ordered = true,
                                     .exact_out = true,
                                     .dtype_is_runtime = true};
};

struct MaxDim : ExtremeAndPosition {
  using Formula = formulas::PositionOfMaximum;
  static constexpr auto name = "max";
  static constexpr auto doc =
      "The largest element along dim and its index: the first NaN, else the first of equals. "
      "Several dims count as one, the last fastest.";
};

struct MinDim : ExtremeAndPosition {
  using Formula = formulas::PositionOfMinimum;
  static constexpr auto name = "min";
  static constexpr auto doc =
      "The smallest element along dim and its index: the first NaN, else the first of equals. "
      "Several dims count as one, the last fastest.";
};

// Base of argmax and argmin.
struct Position : Extreme {
  static constexpr DTypeSet beyond_torch = kBool;
  static constexpr double cost = 2;
  static constexpr ReduceFacts facts{.schema = ReduceSchema::Dims,
                                     .accumulate = Accumulate::Native,
                                     .results = {ResultDType::Index},
                                     .of_nothing = OfNothing::IndexError,
                                     .ordered = true,
                                     .exact_out = true,
                                     .dtype_is_runtime = true};
};

struct Argmax : Position {
  using Formula = formulas::PositionOfMaximum;
  static constexpr auto name = "argmax";
  static constexpr auto doc =
      "The index of the largest element along dim: the first NaN, else the first of equals. "
      "Several dims count as one, the last fastest.";
};

struct Argmin : Position {
  using Formula = formulas::PositionOfMinimum;
  static constexpr auto name = "argmin";
  static constexpr auto doc =
      "The index of the smallest element along dim: the first NaN, else the first of equals. "
      "Several dims count as one, the last fastest.";
};

struct Truth : Reduction {
  static constexpr ReduceFacts facts{.schema = ReduceSchema::Dims,
                                     .accumulate = Accumulate::Truth,
                                     .results = {ResultDType::Truth},
                                     .empty_is_none = true};
};

struct Any : Truth {
  using Formula = formulas::Any;
  static constexpr auto name = "any";
  static constexpr auto doc = "Whether an element along dim is not zero.";
};

struct All : Truth {
  using Formula = formulas::All;
  static constexpr auto name = "all";
  static constexpr auto doc = "Whether no element along dim is zero.";
};

struct Bitwise : Reduction {
  static constexpr const char* torch_name = nullptr;
  static constexpr DTypeSet dtypes = kInteger | kBool;
  static constexpr ReduceFacts facts{.schema = ReduceSchema::Dims,
                                     .accumulate = Accumulate::Native,
                                     .results = {ResultDType::Element}};
};

struct BitwiseAndReduce : Bitwise {
  using Formula = formulas::BitwiseAnd;
  static constexpr auto name = "bitwise_and_reduce";
  static constexpr auto doc =
      "Bitwise and of the elements along dim; all bits where there is none.";
};

struct BitwiseOrReduce : Bitwise {
  using Formula = formulas::BitwiseOr;
  static constexpr auto name = "bitwise_or_reduce";
  static constexpr auto doc = "Bitwise or of the elements along dim; 0 where there is none.";
};

struct BitwiseXorReduce : Bitwise {
  using Formula = formulas::BitwiseXor;
  static constexpr auto name = "bitwise_xor_reduce";
  static constexpr auto doc =
      "Bitwise exclusive or of the elements along dim; 0 where there is none.";
};

// Base of the moments. The number is the correction: N - correction divides the squared distances.
struct Moment : Reduction {
  using Formula = formulas::Moments;
  static constexpr DTypeSet dtypes = kFloatingAndComplex;
  static constexpr double cost = 2;
  static constexpr ReduceFacts facts{.schema = ReduceSchema::Correction,
                                     .accumulate = Accumulate::Double,
                                     .results = {ResultDType::Real},
                                     .dtype_is_runtime = true,
                                     .reads_halves = true};
  template <class V>
  ITERLAB_FN static V variance(const V* total, double count, double correction) {
    const double freedom = count - correction;
    return reducing::divide(total[1], reducing::filled<V>(freedom > 0 ? freedom : 0));
  }
};

struct Var : Moment {
  static constexpr auto name = "var";
  static constexpr auto doc =
      "Sum of squared distances from the mean along dim, divided by max(0, N - correction).";
  template <class V>
  ITERLAB_FN static void project(const V* total, double count, double correction, V* results) {
    results[0] = variance(total, count, correction);
  }
};

struct Std : Moment {
  static constexpr auto name = "std";
  static constexpr auto doc = "The square root of var.";
  template <class V>
  ITERLAB_FN static void project(const V* total, double count, double correction, V* results) {
    results[0] = reducing::sqrt(variance(total, count, correction));
  }
};

struct MomentAndMean : Moment {
  static constexpr int num_outputs = 2;
  static constexpr ReduceFacts facts{.schema = ReduceSchema::Correction,
                                     .accumulate = Accumulate::Double,
                                     .results = {ResultDType::Real, ResultDType::Element},
                                     .output_names = {"out0", "out1"},
                                     .dtype_is_runtime = true,
                                     .reads_halves = true};
  template <class V>
  ITERLAB_FN static V mean(const V* total, double count) {
    return count > 0 ? total[0] : reducing::filled<V>(std::numeric_limits<double>::quiet_NaN());
  }
};

struct VarMean : MomentAndMean {
  static constexpr auto name = "var_mean";
  static constexpr auto doc = "var and mean, in one pass.";
  template <class V>
  ITERLAB_FN static void project(const V* total, double count, double correction, V* results) {
    results[0] = variance(total, count, correction);
    results[1] = mean(total, count);
  }
};

struct StdMean : MomentAndMean {
  static constexpr auto name = "std_mean";
  static constexpr auto doc = "std and mean, in one pass.";
  template <class V>
  ITERLAB_FN static void project(const V* total, double count, double correction, V* results) {
    results[0] = reducing::sqrt(variance(total, count, correction));
    results[1] = mean(total, count);
  }
};

struct LogSumExp : Reduction {
  using Formula = formulas::LogSumExp;
  static constexpr auto name = "logsumexp";
  static constexpr auto doc = "log(sum(exp(input))) along dim, without overflow.";
  static constexpr AutocastPolicy autocast{.cuda = Autocast::Float32};
  static constexpr DTypeSet dtypes = kFloatingAndComplex;
  static constexpr double cost = 8;
  static constexpr ReduceFacts facts{.schema = ReduceSchema::RequiredDims,
                                     .accumulate = Accumulate::Native,
                                     .results = {ResultDType::Element},
                                     .ints_to_float = true};
  template <class V>
  ITERLAB_FN static void project(const V* total, double, double, V* results) {
    results[0] = total[0] + reducing::log(total[1]);
  }
};

// The formula of a norm, by its order.
inline int norm_variant(double order) {
  if (order == 2) return 0;
  if (order == 1) return 1;
  if (order == 0) return 4;
  if (std::isinf(order)) return order > 0 ? 2 : 3;
  return 5;
}

struct Norm : Reduction {
  static constexpr auto name = "norm";
  static constexpr auto doc =
      "The vector norm of order p along dim: sum(abs(input)^p)^(1/p); the largest and smallest "
      "absolute value for inf and -inf, the number of nonzero elements for 0.";
  static constexpr AutocastPolicy autocast{.cuda = Autocast::Float32Result};
  static constexpr DTypeSet dtypes = kFloatingAndComplex;
  static constexpr ReduceFacts facts{.schema = ReduceSchema::Order,
                                     .accumulate = Accumulate::Real,
                                     .results = {ResultDType::Real},
                                     .of_nothing = OfNothing::ErrorByOrder,
                                     .dtype_is_runtime = true,
                                     .reads_halves = true,
                                     .variant = norm_variant};
  // The formula and projection of each order, as norm_variant numbers them.
  struct Square : Reduction {
    using Formula = formulas::SumSquares;
    template <class V>
    ITERLAB_FN static void project(const V* total, double, double, V* results) {
      results[0] = reducing::sqrt(total[0]);
    }
  };
  struct Power : Reduction {
    using Formula = formulas::SumPowers;
    template <class V>
    ITERLAB_FN static void project(const V* total, double, double order, V* results) {
      results[0] = reducing::pow(total[0], reducing::filled<V>(1 / order));
    }
  };
  struct Absolute : Reduction {
    using Formula = formulas::SumAbsolute;
  };
  struct Largest : Reduction {
    using Formula = formulas::MaximumAbsolute;
  };
  struct Smallest : Reduction {
    using Formula = formulas::MinimumAbsolute;
  };
  struct Count : Reduction {
    using Formula = formulas::CountNorm;
  };
  using Variants = std::tuple<Square, Absolute, Largest, Smallest, Count, Power>;
};

// In the order of the kernel tables; each list is compiled in a file of its own.
using SumOps = OpList<Sum, NanSum, Mean, NanMean, Prod>;
using ExtremeOps = OpList<Amax, Amin, Max, Min, AminMax>;
using PositionOps = OpList<MaxDim, MinDim, Argmax, Argmin>;
using TruthOps =
    OpList<CountNonzero, Any, All, BitwiseAndReduce, BitwiseOrReduce, BitwiseXorReduce>;
using MomentOps = OpList<Var, Std, VarMean, StdMean, LogSumExp>;
using NormOps = OpList<Norm>;

}  // namespace iterlab::ops
