// Mathematical functions of two operands. To add one: a struct, and its name in the list at the
// end.
#pragma once

#include "iterlab/input_checks.h"
#include "iterlab/math_binary.h"
#include "iterlab/op.h"

#include <limits>

namespace iterlab::ops {

struct Atan2 : Binary {
  static constexpr auto name = "atan2";
  static constexpr auto doc = "The angle of the point (other, input), in radians, from -pi to pi.";
  static constexpr AutocastPolicy autocast{.cuda = Autocast::Promote};
  static constexpr auto promotion = Promotion::IntToFloat;
  static constexpr auto dtypes = kFloating;
  static constexpr double cost = 12;
  template <class V>
  ITERLAB_FN V operator()(V input, V other) const {
    return math::atan2(input, other);
  }
};

struct Hypot : Binary {
  static constexpr auto name = "hypot";
  static constexpr auto doc = "sqrt(input^2 + other^2), without overflow on the way.";
  static constexpr auto dtypes = kFloating;
  static constexpr double cost = 6;
  template <class V>
  ITERLAB_FN V operator()(V input, V other) const {
    return math::hypot(input, other);
  }
};

struct Copysign : Binary {
  static constexpr auto name = "copysign";
  static constexpr auto doc = "The magnitude of input with the sign of other, zero's too.";
  static constexpr auto promotion = Promotion::IntToFloat;
  static constexpr auto dtypes = kFloating;
  static constexpr bool changes_signs_only = true;
  template <class V>
  ITERLAB_FN V operator()(V input, V other) const {
    return math::copysign(input, other);
  }
};

struct Nextafter : Binary {
  static constexpr auto name = "nextafter";
  static constexpr auto doc = "The number of the result's dtype after input toward other.";
  static constexpr auto dtypes = kFloating;
  static constexpr auto extra = Extra::DType;
  static constexpr double cost = 4;
  template <class V>
  ITERLAB_FN V operator()(V input, V other, int64_t dtype) const {
    if constexpr (std::is_same_v<scalar_of<V>, float>) {
      if (dtype == static_cast<int64_t>(DType::Half))
        return math::nextafter_narrow<Half>(input, other);
      if (dtype == static_cast<int64_t>(DType::BFloat16))
        return math::nextafter_narrow<BFloat16>(input, other);
    }
    return math::nextafter(input, other);
  }
};

struct Maximum : Binary {
  static constexpr auto name = "maximum";
  static constexpr auto doc = "The larger of input and other; nan where either is.";
  static constexpr auto dtypes = kReal;
  static constexpr InputCheck refuses = refuse_complex<2>;
  template <class V>
  ITERLAB_FN V operator()(V input, V other) const {
    return math::maximum(input, other);
  }
};

struct Minimum : Binary {
  static constexpr auto name = "minimum";
  static constexpr auto doc = "The smaller of input and other; nan where either is.";
  static constexpr auto dtypes = kReal;
  static constexpr InputCheck refuses = refuse_complex<2>;
  template <class V>
  ITERLAB_FN V operator()(V input, V other) const {
    return math::minimum(input, other);
  }
};

struct Fmax : Binary {
  static constexpr auto name = "fmax";
  static constexpr auto doc = "The larger of input and other; a nan yields to a number.";
  static constexpr auto dtypes = kReal;
  static constexpr InputCheck refuses = refuse_complex<2>;
  template <class V>
  ITERLAB_FN V operator()(V input, V other) const {
    return math::select(math::either(math::gt(input, other), math::isnan(other)), input, other);
  }
};

struct Fmin : Binary {
  static constexpr auto name = "fmin";
  static constexpr auto doc = "The smaller of input and other; a nan yields to a number.";
  static constexpr auto dtypes = kReal;
  static constexpr InputCheck refuses = refuse_complex<2>;
  template <class V>
  ITERLAB_FN V operator()(V input, V other) const {
    return math::select(math::either(math::lt(input, other), math::isnan(other)), input, other);
  }
};

// Whether both operands are the same infinity, whose difference would be nan.
template <class V>
ITERLAB_FN auto same_infinity(const V& a, const V& b) {
  const V infinity = constant<V>(std::numeric_limits<scalar_of<V>>::infinity());
  return math::both(math::eq(a, b), math::eq(math::abs(a), infinity));
}

struct LogAddExp : Binary {
  static constexpr auto name = "logaddexp";
  static constexpr auto doc =
      "log(exp(input) + exp(other)), as max(input, other) + log1p(exp(-abs(input - other))).";
  static constexpr auto dtypes = kFloatingAndComplex;
  static constexpr double cost = 16;
  template <class V>
  ITERLAB_FN V operator()(V input, V other) const {
    if constexpr (math::complex_valued<V>) {
      return math::logaddexp(input, other);
    } else {
      const V apart = -math::abs(input - other);
      const V sum = math::maximum(input, other) + math::log1p(math::exp(apart));
      return math::select(same_infinity(input, other), input, sum);
    }
  }
};

struct LogAddExp2 : Binary {
  static constexpr auto name = "logaddexp2";
  static constexpr auto doc =
      "log2(2^input + 2^other), as max(input, other) + log1p(2^-abs(input - other)) / log(2).";
  static constexpr auto dtypes = kFloating;
  static constexpr double cost = 16;
  template <class V>
  ITERLAB_FN V operator()(V input, V other) const {
    const V inverse_log_2 = constant<V>(1 / 0.693147180559945309417);
    const V apart = -math::abs(input - other);
    const V sum = math::maximum(input, other) + math::log1p(math::exp2(apart)) * inverse_log_2;
    return math::select(same_infinity(input, other), input, sum);
  }
};

struct XLogY : Binary {
  static constexpr auto name = "xlogy";
  static constexpr auto doc = "input * log(other); 0 where input is 0 and other is not nan.";
  static constexpr auto promotion = Promotion::IntToFloat;
  static constexpr auto dtypes = kFloating;
  static constexpr double cost = 6;
  template <class V>
  ITERLAB_FN V operator()(V input, V other) const {
    const V zero = constant<V>(0);
    const V product = input * math::log(other);
    return math::select(math::isnan(other), other,
                        math::select(math::eq(input, zero), zero, product));
  }
};

struct XLog1PY : Binary {
  static constexpr auto name = "special_xlog1py";
  static constexpr auto torch_name = "special.xlog1py";
  static constexpr auto doc = "input * log1p(other); 0 where input is 0 and other is not nan.";
  static constexpr auto promotion = Promotion::IntToFloat;
  static constexpr auto dtypes = kFloating;
  static constexpr double cost = 8;
  template <class V>
  ITERLAB_FN V operator()(V input, V other) const {
    const V zero = constant<V>(0);
    const V product = input * math::log1p(other);
    return math::select(math::isnan(other), other,
                        math::select(math::eq(input, zero), zero, product));
  }
};

struct Zeta : Binary {
  static constexpr auto name = "special_zeta";
  static constexpr auto torch_name = "special.zeta";
  static constexpr auto doc = "Hurwitz's zeta function: the sum of 1 / (k + other)^input, k >= 0.";
  static constexpr auto promotion = Promotion::IntToFloat;
  static constexpr auto dtypes = DTypeSet{DType::Float, DType::Double};
  static constexpr bool simd = false;
  static constexpr double cost = 100;
  template <class V>
  ITERLAB_FN V operator()(V input, V other) const {
    return special::zeta(input.value, other.value);
  }
};

struct Heaviside : Binary {
  static constexpr auto name = "heaviside";
  static constexpr auto doc = "0 where input is negative or nan, 1 where positive, values where 0.";
  static constexpr std::array inputs{"input", "values"};
  static constexpr auto dtypes = kReal;
  static constexpr const char* refuses(const InputFacts* inputs) {
    if (const char* const expected = refuse_complex<2>(inputs)) return expected;
    const bool number = inputs[0].category == PromotionCategory::WrappedNumber ||
                        inputs[1].category == PromotionCategory::WrappedNumber;
    return number || inputs[0].dtype == inputs[1].dtype ? nullptr : "operands of one dtype";
  }
  template <class V>
  ITERLAB_FN V operator()(V input, V values) const {
    const V zero = constant<V>(0);
    return math::select(math::eq(input, zero), values, math::as_value<V>(math::gt(input, zero)));
  }
};

struct Igamma : Binary {
  static constexpr auto name = "igamma";
  static constexpr auto doc = "The regularized lower incomplete gamma function P(input, other).";
  static constexpr auto dtypes = kFloating;
  static constexpr bool simd = false;
  static constexpr double cost = 100;
  template <class V>
  ITERLAB_FN V operator()(V input, V other) const {
    return special::igamma(input.value, other.value);
  }
};

struct Igammac : Binary {
  static constexpr auto name = "igammac";
  static constexpr auto doc = "The regularized upper incomplete gamma function Q(input, other).";
  static constexpr auto dtypes = kFloating;
  static constexpr bool simd = false;
  static constexpr double cost = 100;
  template <class V>
  ITERLAB_FN V operator()(V input, V other) const {
    return special::igammac(input.value, other.value);
  }
};

using BinaryMathOps =
    OpList<Atan2, Hypot, Copysign, Nextafter, Maximum, Minimum, Fmax, Fmin, LogAddExp, LogAddExp2,
           XLogY, XLog1PY, Zeta, Heaviside, Igamma, Igammac>;

}  // namespace iterlab::ops
