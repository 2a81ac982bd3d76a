// SPDX-License-Identifier: Apache-2.0
#include "core/device/cuda_library.h"

#include <dlfcn.h>

#include <filesystem>

#include "core/error.h"

namespace hipress {
namespace {

constexpr const char* kFile = "libhipress_cuda.so";
constexpr const char* kBuild =
    "build HiPress from source where nvcc is, with "
    "`pip install . --config-settings=cmake.define.HIPRESS_BUILD_CUDA=ON`, or synchronise tensors on the CPU";

std::filesystem::path besideThis() {
  Dl_info info{};
  dladdr(reinterpret_cast<const void*>(&builtWithCuda), &info);
  return std::filesystem::path(info.dli_fname == nullptr ? "" : info.dli_fname).parent_path() / kFile;
}

std::string loaderError() {
  const char* text = dlerror();
  return text != nullptr ? text : "unknown error";
}

Error missing(int ordinal, const std::string& what) {
  return unsupported("cuda:" + std::to_string(ordinal) + " cannot be used: " + what);
}

}  // namespace

bool builtWithCuda() {
  std::error_code error;
  return std::filesystem::is_regular_file(besideThis(), error);
}

std::shared_ptr<Device> makeCudaDevice(int ordinal, const CudaFiles& files) {
  if (dlopen(files.driver.c_str(), RTLD_NOW | RTLD_LOCAL) == nullptr) {
    throw missing(ordinal, "there is no NVIDIA driver (" + loaderError() +
                               "); install it, and in a container make it visible (docker run --gpus all)");
  }
  const std::string library = files.library.empty() ? besideThis().string() : files.library;
  std::error_code error;
  if (!std::filesystem::is_regular_file(library, error))
    throw missing(ordinal, "this HiPress was built without CUDA (no " + library + "); " + kBuild);
  // Never closed: its devices may outlive every caller.
  void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) throw missing(ordinal, library + " does not load: " + loaderError() + "; " + kBuild);
  void* symbol = dlsym(handle, kCudaLibrarySymbol);
  const CudaLibrary* found =
      symbol == nullptr ? nullptr : reinterpret_cast<decltype(&hipress_cuda_library)>(symbol)();
  if (found == nullptr || found->abi != kCudaLibraryAbi)
    throw missing(ordinal, library + " belongs to another version of HiPress; " + kBuild);
  return found->makeDevice(ordinal);
}

}  // namespace hipress
