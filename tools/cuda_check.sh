#!/usr/bin/env bash
# Compiles the CUDA side against the newest supported torch and imports it; a GPU is not needed.
# Usage: tools/cuda_check.sh [PYTHON], the interpreter that makes .venv-cuda when there is none.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! command -v nvcc >/dev/null; then
  echo "cuda-check skipped: there is no nvcc on this machine"
  exit 0
fi

venv=.venv-cuda
installed=$venv/.requirements-installed
if [ ! -e "$installed" ] || [ -n "$(find requirements/cuda.txt requirements/toolchain.txt -newer "$installed")" ]; then
  [ -x "$venv/bin/python" ] || "${1:-python3}" -m venv "$venv"
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check -r requirements/cuda.txt
  touch "$installed"
fi

# One instruction set of CPU kernels will do: the others are compiled by the CPU build, of the same sources. Here each
# file is compiled alone, so that none comes to lean on what another of its batch includes.
CMAKE_ARGS="${CMAKE_ARGS:-} -DITERLAB_CPU_CAPABILITIES=default -DITERLAB_UNITY_BUILD=OFF" tools/build_cuda.sh "$venv/bin/python" build/cuda
PYTHONPATH=build/cuda/python "$venv/bin/python" tools/cuda_smoke.py
