// What a launch of a reduction kernel takes, by value.
#pragma once

#include "engine/cuda/arguments.h"
#include "iterlab/reduce_facts.h"

#include <cstddef>

namespace iterlab::cuda {

// Note [Same bits on the GPU]
// The order in which the elements of one output are combined is a function of their number alone
// (and of the reduced dims they are spread over): not of the number of outputs, the device, or
// which block comes first. What fixes it:
//   inner  groups of V elements go to P lanes in turn, P from the number of groups (inner_lanes);
//          with more than kChunkBytes, chunks of them are reduced so, and their states again
//   outer  rows go to L lanes in turn, L from the number of rows (outer_lanes), in chunks likewise
//   short  groups of 16 bytes go to S lanes in turn, S from their number (short_lanes); up to 128
//          elements one after the other, as in outer, short outer and few rows
//   merged rows go to as many lanes as are merged, from the number and size of the columns
// Lanes are folded in halves. It is another tree than the CPU's, so bits differ between the two.
// Which form it is follows from the strides: the bits of more than 128 elements differ between rows
// and columns, and so do those of a column alone, which is a row, and one beside others. Where
// columns are few, they depend on how many they are, and on whether rows follow each other (columns
// of kLongColumn elements or more, or fewer of kLongNarrow than a thread takes).

// Bytes that one block of 256 threads reduces. More are cut into chunks of at least as many, at
// most as many (`most`) as there are blocks on an H200 at once, so that all of them work until the
// end.
inline constexpr int64_t kChunkBytes = 65536;
constexpr int max_chunks(int resident) { return resident * 128; }
constexpr int64_t chunk_groups(int64_t groups, int64_t group_bytes, int64_t most) {
  const int64_t least = kChunkBytes / group_bytes;
  if (groups <= least) return least;
  const int64_t share = (groups + most - 1) / most;
  const int64_t whole = (share + kBlockThreads - 1) / kBlockThreads * kBlockThreads;
  return whole < least ? least : whole;
}
// Lanes for one output. A warp takes up to 32 groups a lane: below that, a block would spend more
// on its barriers than on its loads. A lane has 256 bytes at least, for the sake of its own
// beginning and end.
constexpr int inner_lanes(int64_t groups, int64_t group_bytes) {
  if (groups > 1024) return kBlockThreads;
  int lanes = 1;
  while (lanes < 32 && lanes * 256 <= groups * group_bytes) lanes *= 2;
  return lanes;
}

// Elements that a lane collects, at most: as many of 16 bits as their sum in 32 has room for.
inline constexpr int kLaneElements = 65536;

// Rows of a chunk, at least. Before it ends, a block spends as long on what its lanes and its
// column's other blocks have collected as on some 600 rows: longer chunks leave SMs idle where
// columns are few.
constexpr int64_t least_rows(int64_t rows) { return rows <= 4096 ? 1024 : 2048; }
constexpr int64_t chunk_rows(int64_t rows, int64_t most) {
  const int64_t share = (rows + most - 1) / most, least = least_rows(rows);
  return share < least ? least : share;
}

// short: outputs of at most so many bytes, of which a block brings several to shared memory. (One
// of 16 KiB to a block took 1.2 times as long as the inner form.) One lane takes up to 128
// elements; beyond, each has 8 groups of 16 bytes, for the sake of calls that have to wait for
// them.
inline constexpr int64_t kShortRow = 4096;
constexpr int short_lanes(int64_t reduced, int size) {
  if (reduced <= 128) return 1;
  const int64_t groups = (reduced * size + 15) / 16;
  int lanes = 2;
  while (lanes < 32 && lanes * 8 < groups) lanes *= 2;
  return lanes;
}

// few rows: so many at most, and groups of their columns that a thread has.
inline constexpr int64_t kFewRows = 32;
inline constexpr int kGroupsOfFewRows = 2;

// Bytes that a block brings, about: so many that 6 blocks share an SM; fewer where outputs are few,
// but so many that its preparation is paid for.
inline constexpr int64_t kShortBytes = 32768, kLeastShortBytes = 4096;

// Note [Windows]
// Threads of the outer kernel read groups of columns at boundaries of their accesses, whatever a
// row starts at: a block's window onto a row is moved back to a boundary, and what it sees on
// either side of the block's columns is not kept. All rows of a lane must start equally far from
// one, which L rows of any pitch do when L pitches are whole accesses. So many columns of a window
// may be in vain:
constexpr int window_margin(int width) { return width - 1; }
constexpr int64_t window_threads(int64_t columns, int width, int margin) {
  return (columns + margin + width - 1) / width;
}
// Of these, those beside each other in a block.
constexpr int threads_abreast(int64_t threads, int lanes) {
  int abreast = 1;
  while (abreast < kBlockThreads / lanes && abreast < threads) abreast *= 2;
  return abreast;
}
// Lanes for the rows of a chunk. Each has 64 rows or more, the only one 128. So many rows are
// rarely of many columns: all threads that a row leaves share them, also where a row is less than a
// group.
inline constexpr int64_t kLongColumn = 1 << 20, kLongNarrow = 4096;
inline constexpr int kRowLanes = 16;
constexpr int outer_lanes(int64_t rows, int64_t columns, int width) {
  const bool narrow = columns < width;
  if (rows >= (narrow ? kLongNarrow : kLongColumn)) {
    const int margin = columns % width == 0 ? 0 : window_margin(width);
    const int64_t threads = window_threads(columns, width, margin);
    return kBlockThreads / threads_abreast(threads < 2 ? 2 : threads, kRowLanes);
  }
  int lanes = narrow ? kRowLanes : 1;
  while (lanes < kRowLanes && lanes * 128 < rows) lanes *= 2;
  return lanes;
}
// Note [Groups of chunks]
// The last block of a group of chunks of columns folds them, and the last of a group of groups
// those. (One block for all would wait for 512 states of each column.) Of every chunk and group
// but the last there is a state: so many nodes.
inline constexpr int kOuterGroupBits = 6, kMergedGroupBits = 5;
constexpr int groups_of_chunks(int chunks, int bits) { return ((chunks - 1) >> bits) + 1; }
constexpr int chunk_nodes(int chunks, int bits) {
  int nodes = 0;
  for (; chunks > 1; chunks = groups_of_chunks(chunks, bits)) nodes += chunks;
  return nodes;
}
// Lanes that the chunks of a group go to in turn: so many that no thread has long to wait for its
// loads.
constexpr int chunk_lanes(int64_t chunks, int lanes) {
  const int most = lanes <= 4 * kRowLanes ? kRowLanes : lanes / 4;
  int needed = 1;
  while (needed < most && needed < chunks) needed *= 2;
  return needed;
}
// Note [Merged rows]
// Where columns are few, rows that follow each other in memory are taken as one that all threads of
// a block have columns of, so that neighbouring threads read neighbouring bytes and none is idle.
// What its columns have collected is then folded over the rows that it stands for. So many they
// are, that merged rows all start equally far from a boundary of `access` bytes:
constexpr int merged_rows(int64_t columns, int size, int width, int access) {
  int whole = 1;
  while (whole * columns * size % access != 0) whole *= 2;
  const int64_t room = kBlockThreads * width - window_margin(width);
  return static_cast<int>(room / columns / whole * whole);
}
// Bytes of a chunk of merged rows, at least.
inline constexpr int64_t kMergedBytes = 1 << 17;
// Columns of a thread: 16 bytes of a row, 8 of those of one byte. (With 32 bytes, two blocks fewer
// share an SM, and the sums of 8192 rows of 8192 floats took 67 us in place of 65; with 16 columns
// of a byte, 24 in place of 21.)
constexpr int outer_width(int size) { return size >= 4 ? 16 / size : 8; }

// Dims of a launch, fastest first: number d of the kept ones, and number d of the reduced ones.
// (They have nothing to do with each other, but that of each the first is read most.)
struct KeptDim {
  Divider divider;
  int64_t stride;                // of the input, bytes, as all strides here
  int64_t results[kMaxResults];  // of the results
};
struct ReducedDim {
  Divider divider;
  int64_t stride;
};
struct LoopDim {
  KeptDim kept;
  ReducedDim reduced;
};

struct ReduceResult {
  char* data;
  int16_t type;         // TypeIndex of the memory
  int16_t size;         // bytes of an element there
  int16_t result_type;  // of the result, which out= may hold in another dtype
};

// What most calls read is in the first 256 bytes. Note [Arguments]
struct ReduceArguments {
  const char* input;
  int16_t type, size;    // of the elements in memory
  int16_t element_type;  // what they are converted to first, where that rounds; else -1
  int16_t lanes;         // P, L
  int64_t reduced;       // elements of one output
  int64_t outputs;
  int64_t reduced_size, kept_size;  // of the fastest reduced and kept dims
  int16_t reduced_dims, kept_dims;
  bool whole_rows;  // inner: rows keep the alignment of the first, in whole groups but for an only
                    // row; outer: rows are read through windows; short: rows are copied as they are
  int64_t groups;   // inner: groups of one output; merged: whole merged rows
  int64_t chunk;    // groups or rows of a chunk
  int32_t chunks;
  int32_t columns;      // outer: of a slot; short: rows or matrices of a slab
  int32_t pitch;        // short: bytes from one of them to the next in shared memory
  int16_t abreast;      // outer: threads beside each other
  int16_t chunk_lanes;  // outer: chunk_lanes
  int16_t merged;       // merged: rows of a merged one
  int16_t beside;       // short outer: columns of a matrix
  Divider row_divider;  // inner: groups of one row; outer: columns; short: elements of one output,
                        // columns of a matrix
  Divider chunk_divider;   // chunks
  Divider column_divider;  // blocks along the fastest kept dim: outer: of columns; short: of a slab
  double number;           // the reduction's own
  char* partials;          // states of chunks, by output and chunk
  uint32_t* tickets;       // chunks that are done, by output; 0 between launches
  ReduceResult results[kMaxResults];
  LoopDim dims[kMaxLoopDims];
};
inline constexpr int kHotArguments = 256;
static_assert(offsetof(ReduceArguments, dims) + sizeof(LoopDim) <= kHotArguments);

}  // namespace iterlab::cuda
