// SPDX-License-Identifier: Apache-2.0
#include "core/device/cuda/driver.h"

#include <dlfcn.h>

#include <map>
#include <mutex>

#include "core/base/error.h"

namespace hipress::cuda {
namespace {

template <typename Function>
void find(void* library, const char* symbol, Function& function, const std::string& who) {
  function = reinterpret_cast<Function>(dlsym(library, symbol));
  if (function == nullptr) {
    throw unsupported(who + " the NVIDIA driver has no function " + symbol +
                      "; install a driver for CUDA 12 or newer");
  }
}

Driver functionsOf(void* library, const std::string& who) {
  Driver driver{};
  find(library, "cuInit", driver.init, who);
  find(library, "cuGetErrorName", driver.getErrorName, who);
  find(library, "cuGetErrorString", driver.getErrorString, who);
  find(library, "cuDeviceGetCount", driver.deviceGetCount, who);
  find(library, "cuDeviceGet", driver.deviceGet, who);
  find(library, "cuDeviceGetAttribute", driver.deviceGetAttribute, who);
  find(library, "cuDevicePrimaryCtxRetain", driver.primaryContextRetain, who);
  find(library, "cuCtxPushCurrent_v2", driver.contextPush, who);
  find(library, "cuCtxPopCurrent_v2", driver.contextPop, who);
  find(library, "cuMemAlloc_v2", driver.memoryAllocate, who);
  find(library, "cuMemFree_v2", driver.memoryFree, who);
  find(library, "cuMemHostAlloc", driver.hostAllocate, who);
  find(library, "cuMemFreeHost", driver.hostFree, who);
  find(library, "cuMemsetD8Async", driver.fillAsync, who);
  find(library, "cuMemcpyAsync", driver.copyAsync, who);
  find(library, "cuStreamCreate", driver.streamCreate, who);
  find(library, "cuStreamDestroy_v2", driver.streamDestroy, who);
  find(library, "cuStreamSynchronize", driver.streamSynchronize, who);
  find(library, "cuStreamWaitEvent", driver.streamWaitEvent, who);
  find(library, "cuEventCreate", driver.eventCreate, who);
  find(library, "cuEventRecord", driver.eventRecord, who);
  find(library, "cuEventQuery", driver.eventQuery, who);
  find(library, "cuEventSynchronize", driver.eventSynchronize, who);
  find(library, "cuEventDestroy_v2", driver.eventDestroy, who);
  find(library, "cuModuleLoadData", driver.moduleLoad, who);
  find(library, "cuModuleUnload", driver.moduleUnload, who);
  find(library, "cuModuleGetFunction", driver.moduleFunction, who);
  find(library, "cuLaunchKernel", driver.launchKernel, who);
  return driver;
}

}  // namespace

std::string Driver::errorText(Result error) const {
  const char* name = nullptr;
  const char* text = nullptr;
  if (getErrorName(error, &name) != kSuccess || getErrorString(error, &text) != kSuccess) {
    return "error " + std::to_string(error);
  }
  return std::string(name) + " (" + text + ")";
}

const Driver& loadDriver(const std::string& library, const std::string& who) {
  static std::mutex mutex;
  static std::map<std::string, Driver> loaded;
  const std::lock_guard lock(mutex);
  if (const auto found = loaded.find(library); found != loaded.end()) return found->second;
  void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* text = dlerror();
    throw unsupported(who + " there is no NVIDIA driver (" + (text != nullptr ? text : library) +
                      "); install it, and in a container make it visible (docker run --gpus all)");
  }
  const Driver driver = functionsOf(handle, who);
  if (const Result status = driver.init(0); status != kSuccess) {
    throw unsupported(who + " the NVIDIA driver does not start: " + driver.errorText(status) +
                      "; see whether nvidia-smi does");
  }
  return loaded.emplace(library, driver).first->second;
}

}  // namespace hipress::cuda
