// SPDX-License-Identifier: Apache-2.0
//
// The functions of NVIDIA's driver that HiPress calls. The driver is a library of the machine (libcuda.so.1).
// HiPress loads it when a caller first needs a GPU, so HiPress needs no CUDA toolkit, neither for the build
// nor at run time.
#pragma once

#include <cstddef>
#include <string>

struct CUctx_st;
struct CUevent_st;
struct CUfunc_st;
struct CUmod_st;
struct CUstream_st;

namespace hipress::cuda {

// The driver's types and numbers. Its interface never changes them.
using Result = int;
using Address = unsigned long long;
using DriverContext = CUctx_st*;
using DriverEvent = CUevent_st*;
using DriverFunction = CUfunc_st*;
using DriverModule = CUmod_st*;
using DriverStream = CUstream_st*;

inline constexpr Result kSuccess = 0;
inline constexpr Result kInvalidValue = 1;
inline constexpr Result kOutOfMemory = 2;
inline constexpr Result kNotFound = 500;
inline constexpr unsigned kStreamNonBlocking = 1;
inline constexpr unsigned kEventBlockingSync = 1;
inline constexpr unsigned kEventDisableTiming = 2;
inline constexpr unsigned kHostAllocPortable = 1;
inline constexpr int kComputeCapabilityMajor = 75;
inline constexpr int kComputeCapabilityMinor = 76;

// The same values as pointers, in the list `extra` of launchKernel.
inline constexpr size_t kLaunchEnd = 0;
inline constexpr size_t kLaunchBuffer = 1;
inline constexpr size_t kLaunchBufferBytes = 2;

struct Driver {
  Result (*init)(unsigned flags);
  Result (*getErrorName)(Result error, const char** name);
  Result (*getErrorString)(Result error, const char** text);
  Result (*deviceGetCount)(int* count);
  Result (*deviceGet)(int* device, int ordinal);
  Result (*deviceGetAttribute)(int* value, int attribute, int device);
  Result (*primaryContextRetain)(DriverContext* context, int device);
  Result (*contextPush)(DriverContext context);
  Result (*contextPop)(DriverContext* context);
  Result (*memoryAllocate)(Address* memory, size_t bytes);
  Result (*memoryFree)(Address memory);
  Result (*hostAllocate)(void** memory, size_t bytes, unsigned flags);
  Result (*hostFree)(void* memory);
  Result (*fillAsync)(Address memory, unsigned char value, size_t bytes, DriverStream stream);
  Result (*copyAsync)(Address to, Address from, size_t bytes, DriverStream stream);
  Result (*streamCreate)(DriverStream* stream, unsigned flags);
  Result (*streamDestroy)(DriverStream stream);
  Result (*streamSynchronize)(DriverStream stream);
  Result (*streamWaitEvent)(DriverStream stream, DriverEvent event, unsigned flags);
  Result (*eventCreate)(DriverEvent* event, unsigned flags);
  Result (*eventRecord)(DriverEvent event, DriverStream stream);
  Result (*eventQuery)(DriverEvent event);
  Result (*eventSynchronize)(DriverEvent event);
  Result (*eventDestroy)(DriverEvent event);
  Result (*moduleLoad)(DriverModule* module, const void* image);
  Result (*moduleUnload)(DriverModule module);
  Result (*moduleFunction)(DriverFunction* function, DriverModule module, const char* symbol);
  Result (*launchKernel)(DriverFunction function, unsigned gridX, unsigned gridY, unsigned gridZ,
                         unsigned blockX, unsigned blockY, unsigned blockZ, unsigned sharedBytes,
                         DriverStream stream, void** parameters, void** extra);

  /// "CUDA_ERROR_ILLEGAL_ADDRESS (an illegal memory access was encountered)"
  std::string errorText(Result error) const;
};

/// The driver in this library, which stays loaded and initialised. Throws Unsupported, with `who` and advice,
/// if the library is missing or the driver does not start.
const Driver& loadDriver(const std::string& library, const std::string& who);

inline Address addressOf(const void* memory) {
  return reinterpret_cast<Address>(memory);
}

}  // namespace hipress::cuda
