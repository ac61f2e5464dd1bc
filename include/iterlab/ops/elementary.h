// Elementary functions: exponentials, logarithms, trigonometry. To add one: a struct, and its name
// in the list at the end.
#pragma once

#include "iterlab/math_elementary.h"
#include "iterlab/math_special.h"
#include "iterlab/op.h"

#include <numbers>

namespace iterlab::ops {

// Complex vectors have no elementary functions of their own.
struct Elementary : Unary {
  static constexpr auto promotion = Promotion::IntToFloat;
  static constexpr auto dtypes = kFloatingAndComplex;
  static constexpr bool complex_simd = false;
  static constexpr bool converts = false;
};

struct Exp : Elementary {
  static constexpr auto name = "exp";
  static constexpr auto doc = "e to the power of input.";
  static constexpr AutocastPolicy autocast{.cuda = Autocast::Float32};
  static constexpr double cost = 3;
  template <class V>
  ITERLAB_FN V operator()(V input) const {
    return math::exp(input);
  }
};

struct Exp2 : Elementary {
  static constexpr auto name = "exp2";
  static constexpr auto doc = "2 to the power of input.";
  static constexpr double cost = 2.5;
  template <class V>
  ITERLAB_FN V operator()(V input) const {
    return math::exp2(input);
  }
};

struct Expm1 : Elementary {
  static constexpr auto name = "expm1";
  static constexpr auto doc = "e^input - 1, exact near 0.";
  static constexpr double cost = 9;
  static constexpr AutocastPolicy autocast{.cuda = Autocast::Float32};
  template <class V>
  ITERLAB_FN V operator()(V input) const {
    return math::expm1(input);
  }
};

struct Log : Elementary {
  static constexpr auto name = "log";
  static constexpr auto doc = "The natural logarithm of input.";
  static constexpr double cost = 5;
  static constexpr AutocastPolicy autocast{.cuda = Autocast::Float32};
  template <class V>
  ITERLAB_FN V operator()(V input) const {
    return math::log(input);
  }
};

struct Log2 : Elementary {
  static constexpr auto name = "log2";
  static constexpr auto doc = "The logarithm of input to base 2.";
  static constexpr double cost = 5;
  static constexpr AutocastPolicy autocast{.cuda = Autocast::Float32};
  template <class V>
  ITERLAB_FN V operator()(V input) const {
    return math::log2(input);
  }
};

struct Log10 : Elementary {
  static constexpr auto name = "log10";
  static constexpr auto doc = "The logarithm of input to base 10.";
  static constexpr double cost = 5;
  static constexpr AutocastPolicy autocast{.cuda = Autocast::Float32};
  template <class V>
  ITERLAB_FN V operator()(V input) const {
    return math::log10(input);
  }
};

struct Log1p : Elementary {
  static constexpr auto name = "log1p";
  static constexpr auto doc = "log(1 + input), exact near 0.";
  static constexpr double cost = 7;
  static constexpr AutocastPolicy autocast{.cuda = Autocast::Float32};
  template <class V>
  ITERLAB_FN V operator()(V input) const {
    return math::log1p(input);
  }
};

struct Sqrt : Elementary {
  static constexpr auto name = "sqrt";
  static constexpr auto doc = "The square root of input.";
  static constexpr double cost = 2;
  static constexpr bool converts = true;
  template <class V>
  ITERLAB_FN V operator()(V input) const {
    return math::sqrt(input);
  }
};

struct Sin : Elementary {
  static constexpr auto name = "sin";
  static constexpr auto doc = "The sine of input, in radians.";
  static constexpr double cost = 3;
  template <class V>
  ITERLAB_FN V operator()(V input) const {
    return math::sin(input);
  }
};

struct Cos : Elementary {
  static constexpr auto name = "cos";
  static constexpr auto doc = "The cosine of input, in radians.";
  static constexpr double cost = 3;
  template <class V>
  ITERLAB_FN V operator()(V input) const {
    return math::cos(input);
  }
};

struct Tan : Elementary {
  static constexpr auto name = "tan";
  static constexpr auto doc = "The tangent of input, in radians.";
  static constexpr double cost = 10;
  static constexpr AutocastPolicy autocast{.cuda = Autocast::Float32};
  template <class V>
  ITERLAB_FN V operator()(V input) const {
    return math::tan(input);
  }
};

struct Asin : Elementary {
  static constexpr auto name = "asin";
  static constexpr auto doc = "The angle in radians whose sine is input.";
  static constexpr double cost = 7;
  static constexpr AutocastPolicy autocast{.cuda = Autocast::Float32};
  template <class V>
  ITERLAB_FN V operator()(V input) const {
    return math::asin(input);
  }
};

struct Acos : Elementary {
  static constexpr auto name = "acos";
  static constexpr auto doc = "The angle in radians whose cosine is input.";
  static constexpr double cost = 7;
  static constexpr AutocastPolicy autocast{.cuda = Autocast::Float32};
  template <class V>
  ITERLAB_FN V operator()(V input) const {
    return math::acos(input);
  }
};

struct Atan : Elementary {
  static constexpr auto name = "atan";
  static constexpr auto doc = "The angle in radians whose tangent is input.";
  static constexpr double cost = 9;
  template <class V>
  ITERLAB_FN V operator()(V input) const {
    return math::atan(input);
  }
};

struct Sinh : Elementary {
  static constexpr auto name = "sinh";
  static constexpr auto doc = "The hyperbolic sine of input.";
  static constexpr double cost = 11;
  static constexpr AutocastPolicy autocast{.cuda = Autocast::Float32};
  template <class V>
  ITERLAB_FN V operator()(V input) const {
    return math::sinh(input);
  }
};

struct Cosh : Elementary {
  static constexpr auto name = "cosh";
  static constexpr auto doc = "The hyperbolic cosine of input.";
  static constexpr double cost = 11;
  static constexpr AutocastPolicy autocast{.cuda = Autocast::Float32};
  template <class V>
  ITERLAB_FN V operator()(V input) const {
    return math::cosh(input);
  }
};

struct Tanh : Elementary {
  static constexpr auto name = "tanh";
  static constexpr auto doc = "The hyperbolic tangent of input.";
  static constexpr double cost = 13;
  template <class V>
  ITERLAB_FN V operator()(V input) const {
    return math::tanh(input);
  }
};

struct Asinh : Elementary {
  static constexpr auto name = "asinh";
  static constexpr auto doc = "The inverse hyperbolic sine of input.";
  static constexpr double cost = 22;
  template <class V>
  ITERLAB_FN V operator()(V input) const {
    return math::asinh(input);
  }
};

struct Acosh : Elementary {
  static constexpr auto name = "acosh";
  static constexpr auto doc = "The inverse hyperbolic cosine of input.";
  static constexpr double cost = 22;
  template <class V>
  ITERLAB_FN V operator()(V input) const {
    return math::acosh(input);
  }
};

struct Atanh : Elementary {
  static constexpr auto name = "atanh";
  static constexpr auto doc = "The inverse hyperbolic tangent of input.";
  static constexpr double cost = 10;
  template <class V>
  ITERLAB_FN V operator()(V input) const {
    return math::atanh(input);
  }
};

struct Rsqrt : Elementary {
  static constexpr auto name = "rsqrt";
  static constexpr auto doc = "1 / sqrt(input).";
  static constexpr double cost = 3;
  static constexpr bool converts = true;
  static constexpr AutocastPolicy autocast{.cuda = Autocast::Float32};
  template <class V>
  ITERLAB_FN V operator()(V input) const {
    return constant<V>(1) / math::sqrt(input);
  }
};

struct Sinc : Elementary {
  static constexpr auto name = "sinc";
  static constexpr auto doc = "sin(pi * input) / (pi * input), and 1 for 0.";
  static constexpr double cost = 4;
  template <class V>
  ITERLAB_FN V operator()(V input) const {
    const V angle = constant<V>(std::numbers::pi) * input;
    return math::select(math::eq(input, constant<V>(0)), constant<V>(1), math::sin(angle) / angle);
  }
};

template <class V>
ITERLAB_FN V sigmoid_of(V x) {
#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
  if constexpr (std::is_same_v<V, Lane<float>>) return special::sigmoid(x.value);
#endif
  return constant<V>(1) / (constant<V>(1) + math::exp(math::neg(x)));
}

template <class V>
ITERLAB_FN V times_sigmoid_of(V x) {
#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
  if constexpr (std::is_same_v<V, Lane<float>>) return x * sigmoid_of(x);
#endif
  return x / (constant<V>(1) + math::exp(math::neg(x)));
}

struct Sigmoid : Elementary {
  static constexpr auto name = "sigmoid";
  static constexpr auto doc = "1 / (1 + exp(-input)).";
  static constexpr double cost = 3.5;
  template <class V>
  ITERLAB_FN V operator()(V input) const {
    return sigmoid_of(input);
  }
};

struct Logit : Elementary {
  static constexpr auto name = "logit";
  static constexpr auto doc =
      "log(z / (1 - z)), where z is input, clamped to [eps, 1 - eps] if eps is given.";
  static constexpr auto dtypes = kFloating;
  static constexpr std::array parameters{
      Parameter{.name = "eps", .kind = ParameterKind::OptionalFloat, .default_value = "None"}};
  static constexpr double cost = 6;
  template <class V>
  ITERLAB_FN V operator()(V input, Optional<V> eps) const {
    return around_inner<Logit>(input, eps);
  }
  using Inner = Log;
  template <class V>
  ITERLAB_FN static V before(V input, Optional<V> eps) {
    const V one = constant<V>(1);
    V z = input;
    if (eps.given) {
      const V low = eps.value, high = one - eps.value;
      z = math::select(math::lt(z, low), low, math::select(math::gt(z, high), high, z));
    }
    return z / (one - z);
  }
  template <class V>
  ITERLAB_FN static V after(V /*input*/, V log, Optional<V> /*eps*/) {
    return log;
  }
};

using ElementaryOps =
    OpList<Exp, Exp2, Expm1, Log, Log2, Log10, Log1p, Sqrt, Sin, Cos, Tan, Asin, Acos, Atan, Sinh,
           Cosh, Tanh, Asinh, Acosh, Atanh, Rsqrt, Sinc, Sigmoid, Logit>;

}  // namespace iterlab::ops
