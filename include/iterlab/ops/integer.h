// Operators of integers and bits. To add one: a struct, and its name in the list at the end.
#pragma once

#include "iterlab/math_binary.h"
#include "iterlab/op.h"

namespace iterlab::ops {

struct BitwiseBinary : Binary {
  static constexpr auto dtypes = kBool | kInteger;
};

struct BitwiseAnd : BitwiseBinary {
  static constexpr auto name = "bitwise_and";
  static constexpr auto doc = "input & other, bit by bit.";
  template <class V>
  ITERLAB_FN V operator()(V input, V other) const {
    return math::bits_and(input, other);
  }
};

struct BitwiseOr : BitwiseBinary {
  static constexpr auto name = "bitwise_or";
  static constexpr auto doc = "input | other, bit by bit.";
  template <class V>
  ITERLAB_FN V operator()(V input, V other) const {
    return math::bits_or(input, other);
  }
};

struct BitwiseXor : BitwiseBinary {
  static constexpr auto name = "bitwise_xor";
  static constexpr auto doc = "input ^ other, bit by bit.";
  template <class V>
  ITERLAB_FN V operator()(V input, V other) const {
    return math::bits_xor(input, other);
  }
};

struct IntegerBinary : Binary {
  static constexpr auto dtypes = kInteger;
};

struct BitwiseLeftShift : IntegerBinary {
  static constexpr auto name = "bitwise_left_shift";
  static constexpr auto doc = "input << other; 0 where other is negative or the width or more.";
  template <class V>
  ITERLAB_FN V operator()(V input, V other) const {
    return math::shift_left(input, other);
  }
};

struct BitwiseRightShift : IntegerBinary {
  static constexpr auto name = "bitwise_right_shift";
  static constexpr auto doc =
      "input >> other, keeping the sign; 0 or -1 where other is negative or the width or more.";
  template <class V>
  ITERLAB_FN V operator()(V input, V other) const {
    return math::shift_right(input, other);
  }
};

struct Gcd : IntegerBinary {
  static constexpr auto name = "gcd";
  static constexpr auto doc = "The greatest common divisor of input and other; gcd(0, 0) is 0.";
  static constexpr double cost = 100;
  template <class V>
  ITERLAB_FN V operator()(V input, V other) const {
    return math::gcd(input, other);
  }
};

struct Lcm : IntegerBinary {
  static constexpr auto name = "lcm";
  static constexpr auto doc = "The least common multiple of input and other; lcm(x, 0) is 0.";
  static constexpr double cost = 100;
  template <class V>
  ITERLAB_FN V operator()(V input, V other) const {
    return math::lcm(input, other);
  }
};

using IntegerOps =
    OpList<BitwiseAnd, BitwiseOr, BitwiseXor, BitwiseLeftShift, BitwiseRightShift, Gcd, Lcm>;

}  // namespace iterlab::ops
