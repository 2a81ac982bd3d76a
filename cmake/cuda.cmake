# libhipress_cuda: GPUs as devices of the engine (core/device/cuda/), and codecs for them, a table of functions each
# (core/ops/cuda/cuda_codec.h). Not part of the default build; it needs nvcc, and no GPU.
find_program(HIPRESS_NVCC nvcc)
if(NOT HIPRESS_NVCC)
  if(HIPRESS_BUILD_CUDA)
    message(FATAL_ERROR "HIPRESS_BUILD_CUDA is ON, but there is no nvcc. Install the CUDA toolkit, or set HIPRESS_NVCC")
  endif()
  return()
endif()
option(HIPRESS_BUILD_CUDA "Build libhipress_cuda, for tensors on GPUs" OFF)
if(NOT HIPRESS_BUILD_CUDA)
  return()
endif()

set(CMAKE_CUDA_COMPILER "${HIPRESS_NVCC}" CACHE FILEPATH "nvcc")
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 80-real 90-real 100)
endif()
enable_language(CUDA)

set(compll_root "${PROJECT_SOURCE_DIR}/compll")
set(cuda_root "${PROJECT_BINARY_DIR}/generated_cuda")
file(GLOB compll_compiler CONFIGURE_DEPENDS "${compll_root}/python/*.py" "${compll_root}/python/*.lark")
file(GLOB compll_algorithms CONFIGURE_DEPENDS "${compll_root}/algorithms/*.cll")
set(cuda_sources "${cuda_root}/builtin_codecs.cu")
foreach(algorithm ${compll_algorithms})
  cmake_path(GET algorithm STEM name)
  list(APPEND cuda_sources "${cuda_root}/${name}.cu")
endforeach()
add_custom_command(OUTPUT ${cuda_sources}
  COMMAND "${Python_EXECUTABLE}" "${compll_root}/generate_cuda.py" "${cuda_root}"
  DEPENDS "${compll_root}/generate_cuda.py" "${compll_root}/generate_algorithms.py" ${compll_compiler}
    ${compll_algorithms}
  COMMENT "CompLL: CUDA sources of the built-in codecs" VERBATIM)

file(GLOB device_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/core/device/cuda/*.cu")
add_library(hipress_cuda SHARED ${cuda_sources} ${device_sources}
  "${PROJECT_SOURCE_DIR}/core/ops/cuda/device_calls.cu")
# It uses the core's interfaces and errors, and lies beside it; the core loads it when a GPU is asked for.
target_link_libraries(hipress_cuda PRIVATE hipress)
target_include_directories(hipress_cuda PUBLIC "${PROJECT_SOURCE_DIR}")
target_compile_features(hipress_cuda PRIVATE cuda_std_20)
# Every operation is rounded by itself, as everywhere: all devices must compute the same bits. These options replace the
# directory's, which are a C++ compiler's.
set_target_properties(hipress_cuda PROPERTIES COMPILE_OPTIONS "-fmad=false;--expt-relaxed-constexpr"
  CUDA_VISIBILITY_PRESET hidden INSTALL_RPATH "$ORIGIN")
install(TARGETS hipress_cuda LIBRARY DESTINATION hipress)
