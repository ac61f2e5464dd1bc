// What a launch of an elementwise kernel takes, by value: plain structs that host and device share.
#pragma once

#include "iterlab/config.h"
#include "iterlab/dtype.h"

#include <cstdint>

namespace iterlab::cuda {

// Loop dims of one launch of the generic kernel. Calls with more (after coalescing) become several
// launches over the outer dims; each then has at least 2^16 elements.
inline constexpr int kMaxLoopDims = 16;
// The same of the kernels that walk rows and tiles; calls with more are the generic kernel's.
inline constexpr int kMaxRowDims = 5;

// Note [Division by multiplication]
// Indices are taken apart by dividing by sizes that are known at the launch. A division by an
// invariant d below 2^31 of n below 2^31 is (mulhi(n, m) + n) >> s (Granlund, Montgomery 1994,
// figure 4.1), 3 instructions where the hardware's own sequence takes about 20.
struct Divider {
  uint32_t divisor, multiplier, shift;

  Divider() = default;
  explicit Divider(int64_t d) : divisor(static_cast<uint32_t>(d)), shift(0) {
    while ((uint64_t{1} << shift) < divisor) ++shift;
    const uint64_t one = 1;
    multiplier = static_cast<uint32_t>(((one << 32) * ((one << shift) - divisor)) / divisor + 1);
  }

#if defined(__CUDACC__)
  __device__ uint32_t divide(uint32_t n) const { return (__umulhi(n, multiplier) + n) >> shift; }
#endif
};

// How a kernel gets at one operand's elements along the innermost dim.
enum class Access : int16_t {
  vectors,  // unit stride
  one,      // one element for all of the innermost dim
  value,    // a number that came with the launch, already of the compute type
  strided,  // another stride
  shared,   // tiled: unit stride along the second dim, through shared memory
  // Boxes: how the memory that holds its elements is copied
  one_run,
  run_of_row,
  run_of_column,
};

// A value of any compute type.
struct alignas(16) Slot {
  char bytes[16];
};

struct KernelOperand {
  char* data = nullptr;
  int16_t type = 0;  // TypeIndex
  int16_t size = 0;  // bytes of an element
  // TypeIndex of the dtype that its values pass through, or -1. Note [Rounded operands]
  int16_t rounded_to = -1;
  Access access = Access::vectors;
  Slot value;  // of Access::value
};

// Parameters of the functor: numbers in the compute type, integers as int64_t. The last may be an
// operator's Extra.
template <int P>
struct Parameters {
  uint32_t given = 0;  // bit i: parameter i is not None
  Slot slots[P];
};

// Note [Slabs]
// The generic kernel takes indices apart in 32 bits, and adds up offsets in 32 bits. So its grid
// has slabs along y: the first dims, as many as keep the elements below 2^30 and every operand's
// span below 2^31 bytes, the last of them cut into chunks where need be. A block's slab is the same
// for its threads, and its base is 64 bits wide.

// Note [Arguments]
// A launch copies its arguments, and every kernel begins with misses on those it reads: with 900
// bytes, at distances of 100, a small kernel took twice its time. So they are as few as the kernel
// needs, what every call reads comes first, and a call of one dim reads no more.

// Of N operands, outputs first, P parameters and D dims. Dim 0 is the innermost. Indices that are
// divided are below 2^31.
template <int N, int P, int D>
struct Arguments {
  static constexpr int kOperands = N;

  int64_t units = 0;  // rows: groups; boxes: rows of a block
  int64_t sizes[2];   // of dims 0 and 1
  int16_t ndim = 0;
  int16_t align = 1;  // rows: elements of the output to a boundary of its stores, where rows differ
  bool plain = false;      // vectorized: one row, every operand's at a boundary of its accesses
  int16_t inner_dims = 0;  // generic: Note [Slabs]
  KernelOperand operands[N];
  Parameters<P> parameters;
  // What a call of one dim does not read.
  // rows: groups of a row; tiled: tiles along dim 0; boxes: columns of a block; generic: chunks
  Divider row_divider;
  Divider slab_divider;  // tiled: tiles along dim 1; boxes: columns of a row's last block
  int64_t chunk_size = 0, chunk_numel = 0;  // generic
  int64_t slab_numel = 0;                   // generic
  Divider dividers[D];                      // boxes: the first two, of blocks along dims 0 and 1
  int64_t strides[N][D];                    // bytes, fastest dim first
  int32_t rooms[N];                         // boxes: bytes of shared memory from run to run
};

// Threads of a block, at most.
inline constexpr int kBlockThreads = 256;

// Elements of one thread, by the size of the compute type: 16 to 32 bytes of each operand, so that
// an SM has 64 KiB and more in flight. One group a thread: with four, a prototype fell from 1.00 to
// 0.73 of the copy rate on an H200 (DESIGN, idea 2).
constexpr int group_width(int size) { return size == 1 ? 16 : size <= 4 ? 8 : size == 8 ? 4 : 2; }

// The same for the kernels that are compiled for stored types: of words, one 16-byte access of each
// operand, as of narrower types. (Two, side by side, each touch half of every sector, which costs
// stores that end in L2 twice the requests. Wider types keep two: lanes of bool then fill words.)
constexpr int stored_width(int size) { return size == 4 ? 4 : group_width(size); }

// Groups that one thread of these kernels takes, one after the other. Where a formula is long for
// the few bytes that it reads, its threads would have no load on the way while they compute: each
// loads its next group first.
constexpr int stored_groups(int size, double cost) { return size <= 2 && cost >= 3 ? 2 : 1; }

// The same for the generic kernel, which has offsets and addresses for each element and operand.
inline constexpr int kGenericWidth = 4;

// Blocks that an SM shall hold of the generic kernel: without a bound the compiler takes 128
// registers a thread for all the addresses at once, which leaves 2 blocks.
constexpr int resident_blocks(int size) { return size <= 8 ? 3 : 2; }

// Blocks that an SM shall hold of the kernels that are compiled for stored types. Note [Stored
// types of the fast kernels]
constexpr int full_blocks(int size) { return size == 1 ? 5 : 6; }
// The same where a formula's temporaries, of all lanes at once, need 48 registers.
inline constexpr int kFormulaBlocks = 5;

// Elements of a box, at most: a block prepares as long as it takes to copy some 2000 floats. How
// many words of results a thread has in hand.
constexpr int box_elements(int size) { return size <= 4 ? 8192 : 32768 / size; }
inline constexpr int kBoxWidth = 4;

// Edges of a tile, along loop dims 0 and 1, by the size of the stored type: rows of 128 bytes and
// more on both sides.
constexpr int tile_edge0(int size) { return size == 1 ? 128 : size <= 4 ? 64 : 32; }
constexpr int tile_edge1(int size) { return size <= 2 ? 128 : size == 4 ? 64 : 32; }
// Rows of shared memory are whole words, and one more. Note [Tiles]
constexpr int tile_bytes(int size) {
  return size < 4 ? tile_edge1(size) * (tile_edge0(size) * size + 4)
                  : tile_edge1(size) * (tile_edge0(size) + 1) * size;
}

}  // namespace iterlab::cuda
