#!/usr/bin/env bash
# Builds iterlab with CUDA for the torch of one interpreter, into DIR; DIR/python then goes on PYTHONPATH.
# Usage: tools/build_cuda.sh PYTHON DIR. Installs nothing; CMAKE_ARGS is passed on to the configure step.
set -euo pipefail

python=$("$1" -c 'import sys; print(sys.executable)')
dir=$2
cd "$(dirname "$0")/.."
start=$SECONDS

# The interpreter's own cmake and ninja first, and the CMake packages that it holds.
PATH="$("$python" -c 'import sysconfig; print(sysconfig.get_path("scripts"))'):$PATH"
prefixes=$("$python" - <<'EOF'
import importlib.util
import torch

prefixes = [torch.utils.cmake_prefix_path]
if importlib.util.find_spec("pybind11"):
    import pybind11
    prefixes.append(pybind11.get_cmake_dir())
print(";".join(prefixes))
EOF
)

# shellcheck disable=SC2086 # CMAKE_ARGS is a list of words
cmake -S . -B "$dir" -G Ninja -DCMAKE_BUILD_TYPE=Release -DITERLAB_CUDA=ON \
  -DPython_EXECUTABLE="$python" -DCMAKE_PREFIX_PATH="$prefixes" ${CMAKE_ARGS:-}
cmake --build "$dir"

rm -rf "$dir/python"
mkdir -p "$dir/python"
cp -R python_bindings/iterlab "$dir/python/"
cmake --install "$dir" --component python --prefix "$dir/python/iterlab"
echo "iterlab with CUDA built in $((SECONDS - start)) s"
