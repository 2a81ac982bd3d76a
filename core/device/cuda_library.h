// SPDX-License-Identifier: Apache-2.0
//
// GPUs, by the library that is built with CUDA. libhipress itself needs neither the toolkit nor a driver: it
// loads libhipress_cuda, which lies beside it, when a GPU is asked for.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "core/device/device.h"

namespace hipress {

/// Increased with every change of what crosses the border: this file, device.h, and what they include.
inline constexpr uint32_t kCudaLibraryAbi = 1;

struct CudaLibrary {
  uint32_t abi = kCudaLibraryAbi;  ///< First for ever: nothing else is read if it differs.
  /// Throws Unsupported if CUDA has no such GPU, or none that the library has code for.
  std::shared_ptr<Device> (*makeDevice)(int ordinal) = nullptr;
};

/// Its one function that libhipress calls; points to static storage.
inline constexpr const char* kCudaLibrarySymbol = "hipress_cuda_library";

/// Where both libraries are looked for.
struct CudaFiles {
  std::string driver = "libcuda.so.1";
  std::string library;  ///< Empty: libhipress_cuda.so beside libhipress.so.
};

/// Whether libhipress_cuda is there.
bool builtWithCuda();

/// The GPU with this number (CUDA's, which CUDA_VISIBLE_DEVICES changes), with streams and pools of its own:
/// several ranks, and several of these in one process, may share one. Throws Unsupported, saying what is
/// missing: the driver, the library or the GPU.
std::shared_ptr<Device> makeCudaDevice(int ordinal, const CudaFiles& files = {});

}  // namespace hipress

extern "C" {
const hipress::CudaLibrary* hipress_cuda_library();
}
