// Which CPU kernels run: the best instruction set of the machine, or the one that
// ITERLAB_CPU_CAPABILITY names.
#pragma once

#include "engine/cpu/kernel_table.h"

namespace iterlab {

// The table of the chosen capability; its library is loaded at the first call. Throws
// std::runtime_error where ITERLAB_CPU_CAPABILITY names one that this machine or this build does
// not have.
const cpu::KernelTable& kernel_table();

// "default", "avx2" or "avx512".
const char* cpu_capability();

}  // namespace iterlab
