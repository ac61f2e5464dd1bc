// Sharing work between threads.
#pragma once

#include "iterlab/parallel.h"

#include <algorithm>

namespace iterlab::cpu {

// Note [Grain]
// A thread is woken for this much work: bytes of traffic, weighted with the operator's cost. Waking
// the pool costs 5 to 20 us, in which one core moves about 100 kB.
inline constexpr double kGrainBytes = 256 * 1024;

// Runs body(begin, end) over [0, count), on as many threads as `work` is worth.
template <class Body>
void share(const Parallel& parallel, int64_t count, double work, const Body& body) {
  if (parallel.threads <= 1 || count <= 1 || work < 2 * kGrainBytes) return body(int64_t{0}, count);
  const double pieces = std::min(static_cast<double>(parallel.threads), work / kGrainBytes);
  parallel.run(count,
               std::max<int64_t>(1, static_cast<int64_t>(static_cast<double>(count) / pieces)),
               RangeBody(body));
}

}  // namespace iterlab::cpu
