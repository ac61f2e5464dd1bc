// Special functions. To add one: a struct, and its name in the list at the end.
#pragma once

#include "iterlab/math_elementary.h"
#include "iterlab/math_special.h"
#include "iterlab/op.h"

#include <numbers>

namespace iterlab::ops {

struct Special : Unary {
  static constexpr auto promotion = Promotion::IntToFloat;
  static constexpr auto dtypes = kFloating;
};

// Of functions that no SIMD vector has. Note [Special functions]
struct ScalarSpecial : Special {
  static constexpr bool simd = false;
};

// torch has no half types for some.
inline constexpr DTypeSet kSingleAndDouble{DType::Float, DType::Double};

struct Erf : Special {
  static constexpr auto name = "erf";
  static constexpr auto doc = "2 / sqrt(pi) times the integral of exp(-t * t) from 0 to input.";
  static constexpr double cost = 10;
  template <class V>
  ITERLAB_FN V operator()(V input) const {
    return math::erf(input);
  }
};

struct Erfc : Special {
  static constexpr auto name = "erfc";
  static constexpr auto doc = "1 - erf(input), exact where that is small.";
  static constexpr double cost = 23;
  template <class V>
  ITERLAB_FN V operator()(V input) const {
    return math::erfc(input);
  }
};

struct Lgamma : Special {
  static constexpr auto name = "lgamma";
  static constexpr auto doc = "The logarithm of the absolute value of the gamma function at input.";
  static constexpr double cost = 40;
  template <class V>
  ITERLAB_FN V operator()(V input) const {
    return math::lgamma(input);
  }
};

struct Entr : Special {
  static constexpr auto name = "special_entr";
  static constexpr auto torch_name = "special.entr";
  static constexpr auto doc = "-input * log(input) where positive, 0 for 0, -inf where negative.";
  static constexpr double cost = 6;
  template <class V>
  ITERLAB_FN V operator()(V input) const {
    const V zero = constant<V>(0);
    const V infinity = constant<V>(std::numeric_limits<scalar_of<V>>::infinity());
    const V entropy = math::select(math::gt(input, zero), math::neg(input) * math::log(input),
                                   math::select(math::lt(input, zero), math::neg(infinity), zero));
    return math::select(math::isnan(input), input, entropy);
  }
};

// torch computes (1 + erf(input / sqrt(2))) / 2, which cancels where input is negative.
struct Ndtr : Special {
  static constexpr auto name = "special_ndtr";
  static constexpr auto torch_name = "special.ndtr";
  static constexpr auto doc =
      "The normal distribution function erfc(-input / sqrt(2)) / 2, exact in both tails.";
  static constexpr double cost = 5;
  template <class V>
  ITERLAB_FN V operator()(V input) const {
    return around_inner<Ndtr>(input);
  }
  using Inner = Erfc;
  template <class V>
  ITERLAB_FN static V before(V input) {
    return input * constant<V>(-1 / std::numbers::sqrt2);
  }
  template <class V>
  ITERLAB_FN static V after(V /*input*/, V erfc) {
    return constant<V>(0.5) * erfc;
  }
};

struct Erfinv : ScalarSpecial {
  static constexpr auto name = "erfinv";
  static constexpr auto doc = "The number whose erf is input.";
  static constexpr double cost = 160;
  static constexpr AutocastPolicy autocast{.cuda = Autocast::Float32};
  template <class V>
  ITERLAB_FN V operator()(V input) const {
    return math::erfinv(input);
  }
};

struct Digamma : ScalarSpecial {
  static constexpr auto name = "digamma";
  static constexpr auto doc = "The logarithmic derivative of the gamma function at input.";
  static constexpr double cost = 110;
  template <class V>
  ITERLAB_FN V operator()(V input) const {
    return math::digamma(input);
  }
};

struct I0 : Special {
  static constexpr auto name = "i0";
  static constexpr auto doc =
      "The modified Bessel function of the first kind, of order 0, of input.";
  static constexpr double cost = 10;
  template <class V>
  ITERLAB_FN V operator()(V input) const {
    return math::i0(input);
  }
};

struct I0e : Special {
  static constexpr auto name = "special_i0e";
  static constexpr auto torch_name = "special.i0e";
  static constexpr auto doc = "exp(-|input|) * i0(input).";
  static constexpr double cost = 9;
  template <class V>
  ITERLAB_FN V operator()(V input) const {
    return math::i0e(input);
  }
};

struct I1 : Special {
  static constexpr auto name = "special_i1";
  static constexpr auto torch_name = "special.i1";
  static constexpr auto doc =
      "The modified Bessel function of the first kind, of order 1, of input.";
  static constexpr double cost = 7;
  template <class V>
  ITERLAB_FN V operator()(V input) const {
    return math::i1(input);
  }
};

struct I1e : Special {
  static constexpr auto name = "special_i1e";
  static constexpr auto torch_name = "special.i1e";
  static constexpr auto doc = "exp(-|input|) * i1(input).";
  static constexpr double cost = 5;
  template <class V>
  ITERLAB_FN V operator()(V input) const {
    return math::i1e(input);
  }
};

struct Erfcx : ScalarSpecial {
  static constexpr auto name = "special_erfcx";
  static constexpr auto torch_name = "special.erfcx";
  static constexpr auto doc = "exp(input * input) * erfc(input).";
  static constexpr auto dtypes = kSingleAndDouble;
  static constexpr double cost = 120;
  template <class V>
  ITERLAB_FN V operator()(V input) const {
    return math::erfcx(input);
  }
};

struct Ndtri : ScalarSpecial {
  static constexpr auto name = "special_ndtri";
  static constexpr auto torch_name = "special.ndtri";
  static constexpr auto doc = "The number whose ndtr is input.";
  static constexpr auto dtypes = kSingleAndDouble;
  static constexpr double cost = 30;
  template <class V>
  ITERLAB_FN V operator()(V input) const {
    return math::ndtri(input);
  }
};

struct LogNdtr : ScalarSpecial {
  static constexpr auto name = "special_log_ndtr";
  static constexpr auto torch_name = "special.log_ndtr";
  static constexpr auto doc = "log(ndtr(input)), exact in both tails.";
  static constexpr auto dtypes = kSingleAndDouble;
  static constexpr double cost = 110;
  template <class V>
  ITERLAB_FN V operator()(V input) const {
    return math::log_ndtr(input);
  }
};

// torch.polygamma takes n first: src/composites_unary.cpp.
struct Polygamma : ScalarSpecial {
  static constexpr auto name = "_polygamma";
  static constexpr const char* torch_name = nullptr;
  static constexpr auto doc = "The n-th derivative of digamma at input.";
  static constexpr std::array parameters{Parameter{.name = "n", .kind = ParameterKind::Int}};
  static constexpr ParameterCheck refuses_parameters = [](const Number* parameters, DType) {
    return Refusal{parameters[0].integer < 0 ? "n of at least 0" : nullptr};
  };
  static constexpr double cost = 1000;
  template <class V>
  ITERLAB_FN V operator()(V input, int64_t n) const {
    return math::polygamma(input, n);
  }
};

using SpecialOps = OpList<Erf, Erfc, Lgamma, Entr, Ndtr, Erfinv, Digamma, I0, I0e, I1, I1e, Erfcx,
                          Ndtri, LogNdtr, Polygamma>;

}  // namespace iterlab::ops
