// A kernel launch as data: what an explanation shows of it.
#pragma once

#include <cstdint>
#include <vector>

namespace iterlab::cuda {

struct Grid {
  uint32_t x = 1, y = 1;
};

struct Launch {
  const char* kernel;  // vectorized, strided, tiled, generic, or a reduction's form
  Grid grid;
  int threads;  // of a block
  int shared_bytes;
};

// Note [Noting launches]
// An explanation shows the launches of a call that does not run. They depend on the plan, on
// addresses and on the device, so the code that launches is the one to ask: while a thread notes
// launches, its calls allocate their results and go all the way to the launch, which is written
// down instead.
//
// Turns that on or off for this thread; gives what was noted since it was turned on.
std::vector<Launch> note_launches(bool on);

}  // namespace iterlab::cuda
