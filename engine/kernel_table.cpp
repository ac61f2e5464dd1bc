// Choosing and loading the CPU kernels. Note [One library for each instruction set]
#include "engine/kernel_table.h"

#include <array>
#include <cstdlib>
#include <dlfcn.h>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unistd.h>

namespace iterlab {
namespace {

struct Capability {
  const char* name;
  bool supported;
};

// From best to worst. The instruction sets are those of the compile flags in CMakeLists.txt.
std::array<Capability, 3> capabilities() {
#if defined(__x86_64__)
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                    __builtin_cpu_supports("f16c");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512vl");
#else
  const bool avx2 = false, avx512 = false;
#endif
  return {{{"avx512", avx512}, {"avx2", avx2}, {"default", true}}};
}

// The libraries lie beside the engine's own.
std::string folder() {
  Dl_info info;
  if (dladdr(reinterpret_cast<void*>(&kernel_table), &info) == 0)
    throw std::runtime_error("iterlab: cannot find its libraries");
  const std::string path = info.dli_fname;
  return path.substr(0, path.rfind('/') + 1);
}

std::string library_of(const char* capability) {
  return folder() + "libiterlab_cpu_" + capability + ".so";
}

// A build may have fewer than all: ITERLAB_CPU_CAPABILITIES in CMakeLists.txt.
bool is_built(const char* capability) { return access(library_of(capability).c_str(), R_OK) == 0; }

const char* choose() {
  const char* const wanted = std::getenv("ITERLAB_CPU_CAPABILITY");
  for (const Capability& capability : capabilities()) {
    if (wanted == nullptr || *wanted == '\0') {
      const bool is_last = std::string_view(capability.name) == "default";
      if (is_last || (capability.supported && is_built(capability.name))) return capability.name;
    } else if (std::string(wanted) == capability.name) {
      if (capability.supported) return capability.name;
      throw std::runtime_error("iterlab: ITERLAB_CPU_CAPABILITY is " + std::string(wanted) +
                               ", which this machine does not support");
    }
  }
  throw std::runtime_error(
      "iterlab: expected ITERLAB_CPU_CAPABILITY to be default, avx2 or avx512, got " +
      std::string(wanted));
}

const cpu::KernelTable& load() {
  const std::string path = library_of(choose());
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    throw std::runtime_error(std::string("iterlab: cannot load its CPU kernels: ") + dlerror());
  using TableFn = const cpu::KernelTable* (*)();
  const auto table = reinterpret_cast<TableFn>(dlsym(library, "iterlab_cpu_kernel_table"));
  if (table == nullptr) throw std::runtime_error("iterlab: " + path + " has no kernel table");
  return *table();
}

}  // namespace

const cpu::KernelTable& kernel_table() {
  static const cpu::KernelTable& table = load();
  return table;
}

const char* cpu_capability() {
  static const char* const name = choose();
  return name;
}

}  // namespace iterlab
