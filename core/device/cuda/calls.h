// SPDX-License-Identifier: Apache-2.0
//
// Calls of the CUDA runtime: on which GPU, and what they say when they fail.
#pragma once

#include <cuda_runtime.h>
#include <dlfcn.h>

#include <string>

#include "core/error.h"

namespace hipress::cuda {

/// Whether this process uses that GPU already.
inline bool hasContext(int ordinal) {
  using GetState = int (*)(int device, unsigned* flags, int* active);
  // The runtime does not tell; the driver, which it has loaded, does.
  static const auto getState = reinterpret_cast<GetState>(
      dlsym(dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD), "cuDevicePrimaryCtxGetState"));
  unsigned flags = 0;
  int active = 0;
  return getState != nullptr && getState(ordinal, &flags, &active) == 0 && active != 0;
}

/// The GPU of this thread, until the end of the scope; then the one that the caller had, unless that is one
/// which the process does not use: to choose it would take some hundred MB of its memory.
class OnDevice {
 public:
  explicit OnDevice(int ordinal) {
    const bool known = cudaGetDevice(&before_) == cudaSuccess;
    if (known && before_ == ordinal) return;
    status_ = cudaSetDevice(ordinal);
    restore_ = known && hasContext(before_);
  }
  ~OnDevice() {
    if (restore_) cudaSetDevice(before_);
  }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

  cudaError_t status() const { return status_; }

 private:
  int before_ = 0;
  bool restore_ = false;
  cudaError_t status_ = cudaSuccess;
};

inline std::string deviceName(int ordinal) {
  return "cuda:" + std::to_string(ordinal);
}

/// "cudaErrorIllegalAddress (an illegal memory access was encountered)"
inline std::string errorText(cudaError_t error) {
  return std::string(cudaGetErrorName(error)) + " (" + cudaGetErrorString(error) + ")";
}

/// `call` is what was done: "cudaMalloc", "an encode".
inline Error deviceError(int ordinal, const std::string& call, cudaError_t error) {
  return transportError("device " + deviceName(ordinal) + " failed: " + errorText(error) + " in " + call);
}

inline void check(int ordinal, const std::string& call, cudaError_t error) {
  if (error != cudaSuccess) throw deviceError(ordinal, call, error);
}

}  // namespace hipress::cuda
