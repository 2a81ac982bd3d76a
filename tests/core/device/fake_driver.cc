// SPDX-License-Identifier: Apache-2.0
//
// A stand-in for NVIDIA's driver (libcuda.so.1) that runs on the processor, so core/device/cuda runs
// unchanged without a GPU. It has two GPUs. Streams are threads that begin their work late. Device memory is
// host memory, and is overwritten when it is freed. The image of a module is the path of a library whose
// kernels run on the processor (HIPRESS_HOST_EXECUTION).
#include <dlfcn.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "core/device/cuda/driver.h"

using hipress::cuda::Address;
using hipress::cuda::kNotFound;
using hipress::cuda::kOutOfMemory;
using hipress::cuda::kSuccess;
using hipress::cuda::Result;

#define HIPRESS_CUDA extern "C" __attribute__((visibility("default")))

struct CUctx_st {
  int device;
};

namespace {

constexpr Result kInvalidValue = 1;
constexpr Result kInvalidDevice = 101;
constexpr Result kInvalidContext = 201;
constexpr Result kInvalidImage = 200;
constexpr Result kIllegalAddress = 700;
constexpr Result kNotReady = 600;
constexpr int kGarbage = 0xA5;
constexpr size_t kAlignment = 256;
constexpr auto kLongestDelay = std::chrono::microseconds(200);

/// The driver's error, as in CUDA: after a failure all calls return it until the process, or a test, ends it.
std::atomic<int> failure{kSuccess};
std::atomic<long> launches{0};
std::atomic<int> workUntilFailure{-1};  // -1: no work will fail

thread_local std::vector<CUctx_st*> contexts;

Result outcome(Result error = kSuccess) {
  return error == kSuccess ? failure.load() : error;
}

/// The result of calls that need a current context.
Result inContext() {
  return contexts.empty() ? kInvalidContext : outcome();
}

bool failsNow() {
  if (failure != kSuccess) return true;
  int left = workUntilFailure;
  while (left > 0 && !workUntilFailure.compare_exchange_weak(left, left - 1)) {
  }
  if (left == 0) failure = kIllegalAddress;
  return left == 0;
}

/// Blocks of memory; their content is garbage before and after their use.
class Blocks {
 public:
  Result allocate(void** memory, size_t bytes) {
    if (bytes == 0) return kInvalidValue;
    *memory = std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
    if (*memory == nullptr) return kOutOfMemory;
    std::memset(*memory, kGarbage, bytes);
    const std::lock_guard lock(mutex_);
    sizes_[*memory] = bytes;
    return kSuccess;
  }
  Result free(void* memory) {
    {
      const std::lock_guard lock(mutex_);
      const auto found = sizes_.find(memory);
      if (found == sizes_.end()) return kInvalidValue;
      std::memset(memory, kGarbage, found->second);
      sizes_.erase(found);
    }
    std::free(memory);
    return kSuccess;
  }

 private:
  std::mutex mutex_;
  std::map<void*, size_t> sizes_;
};

Blocks& device() {
  static Blocks blocks;
  return blocks;
}
Blocks& pinned() {
  static Blocks blocks;
  return blocks;
}

void* pointer(Address address) {
  return reinterpret_cast<void*>(address);
}

}  // namespace

/// The number of times that an event was recorded, and the number that its stream has reached.
struct Reached {
  std::mutex mutex;
  std::condition_variable changed;
  uint64_t recorded = 0;
  uint64_t reached = 0;

  void wait(uint64_t which) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return reached >= which; });
  }
};

struct CUevent_st {
  std::shared_ptr<Reached> reached = std::make_shared<Reached>();
};

struct CUstream_st {
  CUstream_st() : thread([this] { serve(); }) {}
  ~CUstream_st() {
    {
      const std::lock_guard lock(mutex);
      stopped = true;
    }
    changed.notify_all();
    thread.join();
  }

  void push(std::function<void()> piece) {
    {
      const std::lock_guard lock(mutex);
      work.push_back(std::move(piece));
    }
    changed.notify_all();
  }

  /// Adds work that may fail.
  void pushWork(std::function<void()> piece) {
    push([piece = std::move(piece)] {
      if (!failsNow()) piece();
    });
  }

  void drain() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [this] { return work.empty() && !busy; });
  }

  void serve() {
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [this] { return stopped || !work.empty(); });
      if (work.empty()) return;
      const auto piece = std::move(work.front());
      work.pop_front();
      busy = true;
      lock.unlock();
      if (random() % 4 == 0)
        std::this_thread::sleep_for(kLongestDelay * static_cast<double>(random() % 100) / 100);
      piece();
      lock.lock();
      busy = false;
      changed.notify_all();
    }
  }

  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<void()>> work;
  bool busy = false;
  bool stopped = false;
  std::minstd_rand random{static_cast<unsigned>(reinterpret_cast<uintptr_t>(this) >> 6)};
  std::thread thread;  // the last member, because the thread uses the others
};

namespace {

/// Work on the default stream runs at once.
void putOn(CUstream_st* stream, std::function<void()> piece) {
  if (stream != nullptr) return stream->pushWork(std::move(piece));
  if (!failsNow()) piece();
}

}  // namespace

HIPRESS_CUDA Result cuInit(unsigned) {
  return kSuccess;
}
HIPRESS_CUDA Result cuGetErrorName(Result error, const char** name) {
  *name = error == kIllegalAddress ? "CUDA_ERROR_ILLEGAL_ADDRESS" : "CUDA_ERROR_OF_THE_TEST";
  return kSuccess;
}
HIPRESS_CUDA Result cuGetErrorString(Result error, const char** text) {
  *text = error == kIllegalAddress ? "an illegal memory access was encountered" : "it was told to fail";
  return kSuccess;
}
HIPRESS_CUDA Result cuDeviceGetCount(int* count) {
  *count = 2;
  return kSuccess;
}
HIPRESS_CUDA Result cuDeviceGet(int* which, int ordinal) {
  *which = ordinal;
  return ordinal == 0 || ordinal == 1 ? kSuccess : kInvalidDevice;
}
HIPRESS_CUDA Result cuDeviceGetAttribute(int* value, int attribute, int) {
  *value = attribute == hipress::cuda::kComputeCapabilityMajor ? 9 : 0;
  return kSuccess;
}
HIPRESS_CUDA Result cuDevicePrimaryCtxRetain(CUctx_st** context, int which) {
  static CUctx_st both[2] = {{0}, {1}};
  *context = &both[which];
  return outcome();
}
HIPRESS_CUDA Result cuCtxPushCurrent_v2(CUctx_st* context) {
  contexts.push_back(context);
  return kSuccess;
}
HIPRESS_CUDA Result cuCtxPopCurrent_v2(CUctx_st** context) {
  if (contexts.empty()) return kInvalidContext;
  *context = contexts.back();
  contexts.pop_back();
  return kSuccess;
}

HIPRESS_CUDA Result cuMemAlloc_v2(Address* memory, size_t bytes) {
  if (const Result status = inContext(); status != kSuccess) return status;
  void* block = nullptr;
  const Result status = device().allocate(&block, bytes);
  *memory = hipress::cuda::addressOf(block);
  return status;
}
HIPRESS_CUDA Result cuMemFree_v2(Address memory) {
  return outcome(device().free(pointer(memory)));
}
HIPRESS_CUDA Result cuMemHostAlloc(void** memory, size_t bytes, unsigned) {
  if (const Result status = inContext(); status != kSuccess) return status;
  return pinned().allocate(memory, bytes);
}
HIPRESS_CUDA Result cuMemFreeHost(void* memory) {
  return outcome(pinned().free(memory));
}
HIPRESS_CUDA Result cuMemsetD8Async(Address memory, unsigned char value, size_t bytes, CUstream_st* stream) {
  ++launches;
  putOn(stream, [=] { std::memset(pointer(memory), value, bytes); });
  return inContext();
}
HIPRESS_CUDA Result cuMemcpyAsync(Address to, Address from, size_t bytes, CUstream_st* stream) {
  ++launches;
  putOn(stream, [=] { std::memcpy(pointer(to), pointer(from), bytes); });
  return inContext();
}

HIPRESS_CUDA Result cuStreamCreate(CUstream_st** stream, unsigned) {
  *stream = new CUstream_st;
  return inContext();
}
HIPRESS_CUDA Result cuStreamDestroy_v2(CUstream_st* stream) {
  delete stream;
  return outcome();
}
HIPRESS_CUDA Result cuStreamSynchronize(CUstream_st* stream) {
  if (stream != nullptr) stream->drain();
  return outcome();
}
HIPRESS_CUDA Result cuStreamWaitEvent(CUstream_st* stream, CUevent_st* event, unsigned) {
  const auto reached = event->reached;
  uint64_t which = 0;
  {
    const std::lock_guard lock(reached->mutex);
    which = reached->recorded;
  }
  stream->push([reached, which] { reached->wait(which); });
  return outcome();
}

HIPRESS_CUDA Result cuEventCreate(CUevent_st** event, unsigned) {
  *event = new CUevent_st;
  return inContext();
}
HIPRESS_CUDA Result cuEventRecord(CUevent_st* event, CUstream_st* stream) {
  const auto reached = event->reached;
  uint64_t which = 0;
  {
    const std::lock_guard lock(reached->mutex);
    which = ++reached->recorded;
  }
  const auto arrive = [reached, which] {
    const std::lock_guard lock(reached->mutex);
    reached->reached = which;
    reached->changed.notify_all();
  };
  if (stream != nullptr) {
    stream->push(arrive);
  } else {
    arrive();
  }
  return outcome();
}
HIPRESS_CUDA Result cuEventQuery(CUevent_st* event) {
  const std::lock_guard lock(event->reached->mutex);
  return event->reached->reached == event->reached->recorded ? outcome() : kNotReady;
}
HIPRESS_CUDA Result cuEventSynchronize(CUevent_st* event) {
  const auto reached = event->reached;
  uint64_t which = 0;
  {
    const std::lock_guard lock(reached->mutex);
    which = reached->recorded;
  }
  reached->wait(which);
  return outcome();
}
HIPRESS_CUDA Result cuEventDestroy_v2(CUevent_st* event) {
  delete event;
  return outcome();
}

HIPRESS_CUDA Result cuModuleLoadData(CUmod_st** module, const void* image) {
  if (const Result status = inContext(); status != kSuccess) return status;
  *module = static_cast<CUmod_st*>(dlopen(static_cast<const char*>(image), RTLD_NOW | RTLD_LOCAL));
  return *module == nullptr ? kInvalidImage : kSuccess;
}
HIPRESS_CUDA Result cuModuleUnload(CUmod_st*) {
  return outcome();
}
HIPRESS_CUDA Result cuModuleGetFunction(CUfunc_st** function, CUmod_st* module, const char* symbol) {
  *function = static_cast<CUfunc_st*>(dlsym(module, symbol));
  return *function == nullptr ? kNotFound : outcome();
}
HIPRESS_CUDA Result cuLaunchKernel(CUfunc_st* function, unsigned blocks, unsigned gridY, unsigned gridZ,
                                   unsigned threads, unsigned blockY, unsigned blockZ, unsigned sharedBytes,
                                   CUstream_st* stream, void** parameters, void** extra) {
  if (const Result status = inContext(); status != kSuccess) return status;
  const bool asExpected = blocks > 0 && gridY == 1 && gridZ == 1 && threads == 256 && blockY == 1 &&
                          blockZ == 1 && sharedBytes == 0 && parameters == nullptr;
  if (!asExpected || extra[0] != reinterpret_cast<void*>(1) || extra[2] != reinterpret_cast<void*>(2) ||
      extra[4] != nullptr) {
    return kInvalidValue;
  }
  const size_t bytes = *static_cast<size_t*>(extra[3]);
  const std::shared_ptr<void> kernel(
      std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment), std::free);
  std::memcpy(kernel.get(), extra[1], bytes);
  ++launches;
  const auto run = reinterpret_cast<void (*)(const void*, unsigned)>(function);
  putOn(stream, [=] { run(kernel.get(), blocks); });
  return outcome();
}

/// How many kernels and copies have been started.
HIPRESS_CUDA long hipress_test_launches() {
  return launches;
}

/// Makes all work after the next `work` pieces fail; with -1 no work fails from now on.
HIPRESS_CUDA void hipress_test_fail_after(int work) {
  workUntilFailure = work;
  if (work < 0) failure = kSuccess;
}
