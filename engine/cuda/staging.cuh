// From global memory to shared memory, and from there to registers.
#pragma once

#include <cstdint>
#include <type_traits>

namespace iterlab::cuda {

// Bytes from run to run of copy_runs. Not a multiple of 32, so that few threads meet at a bank.
constexpr int64_t run_pitch(int64_t length, int64_t step) {
  const int64_t least = length + 30;
  const int64_t pitch = least + ((step - least) % 16 + 16) % 16;
  return pitch % 32 == 0 ? pitch + 16 : pitch;
}

#if defined(__CUDACC__)
// 16 bytes from global to shared memory, at boundaries of both.
__device__ __forceinline__ void copy_16(char* to, const char* from) {
#if __CUDA_ARCH__ >= 800
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address), "l"(from));
#else
  *reinterpret_cast<uint4*>(to) = *reinterpret_cast<const uint4*>(from);
#endif
}

// Runs of `length` bytes, `step` apart, to shared memory, `pitch` apart there: as far, modulo 16,
// and with room for what lies around them between boundaries. `to` is as far from a boundary as
// `from`. All threads call it.
__device__ __forceinline__ void copy_runs(char* to, const char* from, int runs, int64_t step,
                                          int length, int pitch) {
  // Neighbouring threads copy a run: a power of two that reaches its end, or all.
  const int all = 31 - __clz(static_cast<int>(blockDim.x));
  const int log = runs == 1 ? all : min(32 - __clz(length / 16 + 1), all);
  const int lane = (static_cast<int>(threadIdx.x) & ((1 << log) - 1)) * 16;
#pragma unroll 1
  for (int run = static_cast<int>(threadIdx.x) >> log; run < runs;
       run += static_cast<int>(blockDim.x) >> log) {
    const char* const source = from + run * step;
    const int before = static_cast<int>(reinterpret_cast<uintptr_t>(source) & 15);
    char* const place = to + (run * pitch - before);
#pragma unroll 1
    for (int at = lane; at < length + before; at += 16 << log)
      copy_16(place + at, source - before + at);
  }
}

__device__ __forceinline__ void wait_for_copies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_all;" ::: "memory");
#endif
  __syncthreads();
}

// The bits of an element in shared memory. (From a pointer, nvcc 13.0 makes each load's address
// anew: five instructions.)
template <class S>
using ElementBits =
    std::conditional_t<sizeof(S) <= 4, uint32_t, std::conditional_t<sizeof(S) == 8, uint2, uint4>>;
template <class S>
__device__ __forceinline__ ElementBits<S> load_shared(uint32_t address) {
  ElementBits<S> bits;
  if constexpr (sizeof(S) == 1) {
    asm volatile("ld.shared.u8 %0, [%1];" : "=r"(bits) : "r"(address));
  } else if constexpr (sizeof(S) == 2) {
    asm volatile("ld.shared.u16 %0, [%1];" : "=r"(bits) : "r"(address));
  } else if constexpr (sizeof(S) == 4) {
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(bits) : "r"(address));
  } else if constexpr (sizeof(S) == 8) {
    asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(bits.x), "=r"(bits.y) : "r"(address));
  } else {
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(bits.x), "=r"(bits.y), "=r"(bits.z), "=r"(bits.w)
                 : "r"(address));
  }
  return bits;
}

// Four words of elements S in shared memory, which start anywhere: narrow ones are taken out of the
// five words that hold them.
template <class S>
__device__ __forceinline__ void load_loose(uint32_t address, uint32_t (&word)[4]) {
  if constexpr (sizeof(S) < 4) {
    const uint32_t shift = (address & 3) * 8, first = address & ~3u;
    uint32_t around[5];
#pragma unroll
    for (int i = 0; i < 5; ++i) around[i] = load_shared<uint32_t>(first + 4 * i);
#pragma unroll
    for (int i = 0; i < 4; ++i) word[i] = __funnelshift_r(around[i], around[i + 1], shift);
  } else if constexpr (sizeof(S) == 4) {
#pragma unroll
    for (int i = 0; i < 4; ++i) word[i] = load_shared<uint32_t>(address + 4 * i);
  } else {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const uint2 bits = load_shared<uint2>(address + 8 * i);
      word[2 * i] = bits.x, word[2 * i + 1] = bits.y;
    }
  }
}

#endif

}  // namespace iterlab::cuda
