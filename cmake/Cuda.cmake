# The CUDA backend: whether it is built, and for which architectures.
#
# auto builds it if torch is a CUDA build and a CUDA compiler is found; ON fails where either is missing.

set(ITERLAB_CUDA_VERSION "")
if(ITERLAB_CUDA STREQUAL "auto")
  include(CheckLanguage)
  set(build_cuda OFF)
  if(TARGET torch::cuda)
    check_language(CUDA)
    if(CMAKE_CUDA_COMPILER)
      set(build_cuda ON)
    endif()
  endif()
else()
  set(build_cuda ${ITERLAB_CUDA})
endif()

if(build_cuda)
  if(NOT TARGET torch::cuda)
    message(FATAL_ERROR "ITERLAB_CUDA=ON needs a CUDA build of torch; ${Python_EXECUTABLE} has ${ITERLAB_TORCH_VERSION}")
  endif()
  # TORCH_CUDA_ARCH_LIST, as torch's own extensions read it ("9.0;10.0+PTX"), sm_90 without it.
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 90-real)
    if(DEFINED ENV{TORCH_CUDA_ARCH_LIST})
      set(CMAKE_CUDA_ARCHITECTURES "")
      string(REPLACE " " ";" torch_archs "$ENV{TORCH_CUDA_ARCH_LIST}")
      foreach(arch ${torch_archs})
        string(REGEX REPLACE "[.]|[+]PTX" "" number "${arch}")
        if(arch MATCHES "PTX")
          list(APPEND CMAKE_CUDA_ARCHITECTURES ${number})
        else()
          list(APPEND CMAKE_CUDA_ARCHITECTURES ${number}-real)
        endif()
      endforeach()
    endif()
  endif()
  set(CMAKE_CUDA_STANDARD 20)
  set(CMAKE_CUDA_RUNTIME_LIBRARY Shared)
  enable_language(CUDA)
  find_package(CUDAToolkit REQUIRED)
  set(ITERLAB_CUDA_VERSION "${CMAKE_CUDA_COMPILER_VERSION}")
  message(STATUS "CUDA backend: nvcc ${CMAKE_CUDA_COMPILER_VERSION}, architectures ${CMAKE_CUDA_ARCHITECTURES}")
  file(GLOB cuda_sources CONFIGURE_DEPENDS engine/cuda/*.cu engine/cuda/*.cpp)
  file(GLOB cuda_ops_sources CONFIGURE_DEPENDS src/cuda/*.cpp)
  if(cuda_sources)
    # Kernels call the rare conversions as functions; linked as device code, each is there once, where a copy in every
    # kernel would double the library (3.1 MB for two operators instead of 1.4). Contraction is off as on the CPU.
    # A profiler that shall show source lines wants -DCMAKE_CUDA_FLAGS=-lineinfo; they are most of a library that has them.
    add_library(iterlab_cuda SHARED ${cuda_sources} ${cuda_ops_sources})
    set_target_properties(iterlab_cuda PROPERTIES
      CUDA_SEPARABLE_COMPILATION ON CUDA_RESOLVE_DEVICE_SYMBOLS ON CUDA_VISIBILITY_PRESET hidden)
    target_compile_definitions(iterlab_cuda PRIVATE C10_CUDA_NO_CMAKE_CONFIGURE_FILE)
    target_include_directories(iterlab_cuda PRIVATE "${PROJECT_SOURCE_DIR}" "${PROJECT_SOURCE_DIR}/include")
    target_include_directories(iterlab_cuda SYSTEM PRIVATE ${CMAKE_CUDA_TOOLKIT_INCLUDE_DIRECTORIES})
    target_compile_options(iterlab_cuda PRIVATE
      $<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr -fmad=false -Xfatbin=-compress-all>
      $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -fno-gnu-unique>)
    target_link_libraries(iterlab_cuda PRIVATE iterlab_engine iterlab_ops torch::cuda CUDA::cudart)
    list(APPEND iterlab_targets iterlab_cuda)
  endif()
endif()
