// What a reduction is apart from its formula: the facts that plans, schemas and kernels read.
#pragma once

#include "iterlab/dtype.h"

#include <array>

namespace iterlab {

inline constexpr int kMaxResults = 2;   // of a reduction: values and indices, variance and mean
inline constexpr int kMaxVariants = 6;  // formulas of one reduction, chosen by its number

// What a reduction takes besides its input.
enum class ReduceSchema : uint8_t {
  DimsDType,     // int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None
  Dims,          // int[1]? dim=None, bool keepdim=False
  RequiredDims,  // int[1]? dim, bool keepdim=False
  KeywordDims,   // *, int[1]? dim=None, bool keepdim=False
  Full,          // nothing: all dims
  Correction,    // int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False
  Order,         // Scalar p=2, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None
};

// The type that elements are collected in.
enum class Accumulate : uint8_t {
  Sum,     // integers and bool in int64, others in their compute type
  Native,  // the compute type (min, max)
  Double,  // float and the half types in double (variance: no cancellation to fear)
  Real,    // the real part's compute type (norms)
  Truth,   // a byte, 0 or 1
  Count,   // int64
};

// The dtype of a result.
enum class ResultDType : uint8_t {
  Widened,  // int64 for integers and bool (unless the dtype argument says otherwise)
  Element,  // that of the elements
  Real,     // the real dtype of the elements
  Index,    // int64
  Truth,    // bool; uint8 for uint8
};

// What a reduction of no elements gives.
enum class OfNothing : uint8_t {
  Identity,
  Error,         // IndexError where a dim was named, RuntimeError where not
  IndexError,    // IndexError in both cases
  ErrorByOrder,  // norms: RuntimeError for a negative or infinite order
};

struct ReduceFacts {
  const char* overload = "";  // of the functional variant: "dim" of max.dim
  ReduceSchema schema = ReduceSchema::DimsDType;
  Accumulate accumulate = Accumulate::Sum;
  std::array<ResultDType, kMaxResults> results{ResultDType::Widened, ResultDType::Widened};
  std::array<const char*, kMaxResults> output_names{"out", nullptr};
  OfNothing of_nothing = OfNothing::Identity;
  bool ordered = false;           // results depend on positions: reduced dims keep their order
  bool ints_to_float = false;     // integers are converted to the default dtype first
  bool exact_out = false;         // out= must have the result's dtype
  bool empty_is_none = false;     // an empty list of dims reduces none, not all
  bool dtype_is_runtime = false;  // an element dtype outside the set: RuntimeError, as torch
  bool rounds_last = false;       // no element is rounded to a half dtype argument, but the result
  bool skips_nan = false;         // also where elements are converted to integers
  bool reads_halves = false;      // kernels (of variant 0) read half and bfloat16 without staging
  // Whether elements are converted to the dtype of out= first, where there is no dtype argument: of
  // sum, mean, prod and their like, as in torch.
  constexpr bool takes_dtype_of_out() const { return schema == ReduceSchema::DimsDType; }
  int (*variant)(double number) = nullptr;  // which formula the number chooses; null: the only one
};

// The type that a reduction of elements of `dtype` collects in.
constexpr DType accumulate_dtype(Accumulate accumulate, DType dtype) {
  const DType compute = compute_dtype(dtype);
  switch (accumulate) {
    case Accumulate::Sum:
      return is_integral(dtype, true) ? DType::Long : compute;
    case Accumulate::Double:
      return is_complex(compute) ? DType::ComplexDouble : DType::Double;
    case Accumulate::Real:
      return real_of(compute);
    case Accumulate::Truth:
      return DType::Byte;
    case Accumulate::Count:
      return DType::Long;
    default:
      return compute;
  }
}

}  // namespace iterlab
