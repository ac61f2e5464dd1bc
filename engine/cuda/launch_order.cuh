// Kernels of one stream, one after the other.
#pragma once

namespace iterlab::cuda {

// Note [Overlapping launches]
// A kernel's first microseconds go by before it asks for memory: its blocks are placed, and their
// first instructions and arguments miss in caches. So kernels are launched with leave to start
// while the one before on the stream runs its last blocks (programmatic stream serialization, of
// compute capability 9.0 and later; ITERLAB_CUDA_OVERLAP=0 turns it off). Every kernel waits, with
// all its threads and before its first access to memory, until all before it has ended and its
// writes are seen. So it ends after those before it, and whatever follows may rely on all of them.
// The leave is given early: by elementwise kernels as they begin, by reductions when a block has
// collected what it shall. (Their blocks are as many as run at once. Of a next kernel that starts
// beside them, some SMs would get more blocks than others: 8 columns of 8M rows took 86 us instead
// of 82.)
// A profiler counts what a kernel waits as its own time.

// Lets the next kernel on the stream start as soon as there is room for its blocks.
__device__ __forceinline__ void let_next_start() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}

// Brings the first bytes of a kernel's arguments to the constant cache: one word of each line.
template <int bytes, class Arguments>
__device__ __forceinline__ void fetch_arguments(const Arguments& args) {
#pragma unroll
  for (int i = 0; i < bytes; i += 64)
    asm volatile("" ::"r"(*reinterpret_cast<const int*>(reinterpret_cast<const char*>(&args) + i)));
}

// Waits for the kernels before this one on the stream. Before it no memory may be accessed.
__device__ __forceinline__ void wait_for_earlier() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

}  // namespace iterlab::cuda
