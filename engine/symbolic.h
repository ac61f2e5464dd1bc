// Questions about sizes that the shape half asks, answered for int64_t here and for symbolic
// integers by who has them.
#pragma once

#include <cstdint>

namespace iterlab {

// Note [Symbolic sizes]
// The shape half of planning is one set of templates over the integer type. A symbolic integer may
// be unknown, so no rule compares sizes with `==` or `<`: each question below has an answer for
// "unknown" that is always safe.
template <class Int>
struct SizeQuery;

template <>
struct SizeQuery<int64_t> {
  static bool equal(int64_t a, int64_t b) { return a == b; }  // unknown: false
  static bool less(int64_t a, int64_t b) { return a < b; }    // unknown: false
  // Whether two sizes may be broadcast as equals. Unknown: true, with a check left for run time.
  static bool require_equal(int64_t a, int64_t b) { return a == b; }
  static int64_t at_least_one(int64_t a) { return a < 1 ? 1 : a; }
};

}  // namespace iterlab
