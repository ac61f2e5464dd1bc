// Number: a scalar argument of an operator (alpha, min, negative_slope), kept exactly until the
// compute type is known.
#pragma once

#include "iterlab/dtype.h"

namespace iterlab {

struct Number {
  enum class Kind : uint8_t { None, Bool, Int, Float, Complex };

  Kind kind = Kind::Int;
  int64_t integer = 0;        // Bool, Int
  double real = 0, imag = 0;  // Float, Complex

  static constexpr Number none() { return {Kind::None, 0, 0, 0}; }
  static constexpr Number of(bool value) { return {Kind::Bool, value, 0, 0}; }
  static constexpr Number of(int64_t value) { return {Kind::Int, value, 0, 0}; }
  static constexpr Number of(double value) { return {Kind::Float, 0, value, 0}; }
  static constexpr Number of(double real, double imag) { return {Kind::Complex, 0, real, imag}; }

  bool is_none() const { return kind == Kind::None; }
  bool is_integral() const { return kind == Kind::Bool || kind == Kind::Int; }

  // The value in compute type T, converted as C++ does.
  template <class T>
  T to() const {
    const bool integral = is_integral();
    if constexpr (is_complex_v<T>) {
      using Real = typename T::value_type;
      return integral ? T(static_cast<Real>(integer))
                      : T(static_cast<Real>(real), static_cast<Real>(imag));
    } else if constexpr (std::is_same_v<T, bool>) {
      return integral ? integer != 0 : (real != 0 || imag != 0);
    } else {
      return integral ? static_cast<T>(integer) : static_cast<T>(real);
    }
  }
};

}  // namespace iterlab
