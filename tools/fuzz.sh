#!/usr/bin/env bash
# Builds the engine and the CPU kernels of this machine's best instruction set under AddressSanitizer
# and UndefinedBehaviorSanitizer, and runs random calls: tools/fuzz.sh PYTHON [SECONDS [SEED]]. Checks of null pointers
# are left out: with them, GCC 12 compares no addresses of functions at compile time.
set -euo pipefail
cd "$(dirname "$0")/.."
python=$(realpath -s "$1")
shift
export PATH=$(dirname "$python"):$PATH

capability=default
if grep -qw avx512bw /proc/cpuinfo; then
  capability=avx512
elif grep -qw avx2 /proc/cpuinfo; then
  capability=avx2
fi
cmake -S . -B build/fuzz -G Ninja -DPython_EXECUTABLE="$python" -DITERLAB_CUDA=OFF \
  -DCMAKE_CXX_FLAGS="-fsanitize=address,undefined -fno-sanitize=null,nonnull-attribute,returns-nonnull-attribute -fno-sanitize-recover=undefined -g1" >/dev/null
cmake --build build/fuzz --target iterlab_engine "iterlab_cpu_$capability" elementwise_fuzz
libraries=$("$python" -c 'import os, torch; print(os.path.join(os.path.dirname(torch.__file__), "lib"))')
LD_LIBRARY_PATH=$libraries ITERLAB_CPU_CAPABILITY=$capability \
  ASAN_OPTIONS=detect_leaks=0:detect_odr_violation=0 build/fuzz/elementwise_fuzz "${@:-60}"
