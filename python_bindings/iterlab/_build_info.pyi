"""How this build of iterlab was made; written by CMake from cmake/build_info.py.in."""

torch_version: str
cuda_version: str | None
cuda_architectures: str | None
compiler: str
build_type: str
cxx_flags: str
capabilities: tuple[str, ...]
