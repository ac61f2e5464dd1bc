# Finds torch through the active Python, as imported targets: torch::headers, torch::cpu, torch::python, torch::cuda.
#
# torch's own CMake package pulls in every backend that it was built with, and a CUDA toolkit with it; extensions need
# include folders and three or four libraries.

execute_process(
  COMMAND "${Python_EXECUTABLE}" -c "import torch, os
print(torch.__version__)
print(os.path.dirname(torch.__file__))
print(torch.version.cuda or '')
print(int(torch.compiled_with_cxx11_abi()))"
  OUTPUT_VARIABLE torch_facts OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
string(REPLACE "\n" ";" torch_facts "${torch_facts}")
list(GET torch_facts 0 ITERLAB_TORCH_VERSION)
list(GET torch_facts 1 torch_root)
list(LENGTH torch_facts torch_facts_length)
list(GET torch_facts -1 torch_cxx11_abi)
list(GET torch_facts 2 ITERLAB_TORCH_CUDA)
message(STATUS "torch ${ITERLAB_TORCH_VERSION} at ${torch_root}")

if(ITERLAB_TORCH_VERSION VERSION_LESS 2.11 OR ITERLAB_TORCH_VERSION VERSION_GREATER_EQUAL 2.15)
  message(FATAL_ERROR "iterlab needs torch >= 2.11, < 2.15; ${Python_EXECUTABLE} has ${ITERLAB_TORCH_VERSION}")
endif()

add_library(torch::headers INTERFACE IMPORTED)
set_target_properties(torch::headers PROPERTIES
  INTERFACE_INCLUDE_DIRECTORIES "${torch_root}/include;${torch_root}/include/torch/csrc/api/include"
  INTERFACE_COMPILE_DEFINITIONS "_GLIBCXX_USE_CXX11_ABI=${torch_cxx11_abi}")

# at::parallel_for is inline OpenMP code: what calls it is compiled with -fopenmp and linked to torch's own runtime, for
# a second one in the process would have threads of its own.
file(GLOB torch_openmp "${torch_root}/lib/libgomp*.so*" "${torch_root}/../torch.libs/libgomp*.so*")
add_library(torch::openmp INTERFACE IMPORTED)
set_target_properties(torch::openmp PROPERTIES INTERFACE_COMPILE_OPTIONS "$<$<COMPILE_LANGUAGE:CXX>:-fopenmp>")
if(torch_openmp)
  list(GET torch_openmp 0 torch_openmp)
  set_property(TARGET torch::openmp PROPERTY INTERFACE_LINK_LIBRARIES "${torch_openmp}")
else()
  set_property(TARGET torch::openmp PROPERTY INTERFACE_LINK_OPTIONS "-fopenmp")
endif()

foreach(part cpu python cuda)
  if(EXISTS "${torch_root}/lib/libtorch_${part}.so")
    add_library(torch::${part} INTERFACE IMPORTED)
    set(libraries "${torch_root}/lib/libtorch_${part}.so" "${torch_root}/lib/libc10.so")
    if(part STREQUAL "cuda")
      list(APPEND libraries "${torch_root}/lib/libc10_cuda.so")
    endif()
    set_target_properties(torch::${part} PROPERTIES INTERFACE_LINK_LIBRARIES "torch::headers;${libraries}")
  endif()
endforeach()
