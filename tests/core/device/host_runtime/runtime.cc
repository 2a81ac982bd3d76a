// SPDX-License-Identifier: Apache-2.0
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

#include "core/ops/cuda/execution.h"
#include "cuda_runtime.h"

namespace {

constexpr int kGarbage = 0xA5;
constexpr size_t kAlignment = 256;
constexpr auto kLongestDelay = std::chrono::microseconds(200);

/// As CUDA's: once work has failed, all calls say so until the process, or here reset(), ends it.
std::atomic<int> failure{cudaSuccess};
std::atomic<int> workUntilFailure{-1};  // -1: none will

thread_local int current = 0;
thread_local cudaError_t last = cudaSuccess;

cudaError_t outcome(cudaError_t error = cudaSuccess) {
  if (error == cudaSuccess) error = static_cast<cudaError_t>(failure.load());
  if (error != cudaSuccess) last = error;
  return error;
}

bool failsNow() {
  if (failure != cudaSuccess) return true;
  int left = workUntilFailure;
  while (left > 0 && !workUntilFailure.compare_exchange_weak(left, left - 1)) {
  }
  if (left == 0) failure = cudaErrorIllegalAddress;
  return left == 0;
}

/// Blocks of memory, whose content is garbage before and afterwards.
class Blocks {
 public:
  cudaError_t allocate(void** memory, size_t bytes) {
    *memory = std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
    if (*memory == nullptr) return outcome(cudaErrorMemoryAllocation);
    std::memset(*memory, kGarbage, bytes);
    const std::lock_guard lock(mutex_);
    sizes_[*memory] = bytes;
    return cudaSuccess;
  }
  cudaError_t free(void* memory) {
    if (memory == nullptr) return cudaSuccess;
    {
      const std::lock_guard lock(mutex_);
      const auto found = sizes_.find(memory);
      if (found == sizes_.end()) return outcome(cudaErrorInvalidValue);
      std::memset(memory, kGarbage, found->second);
      sizes_.erase(found);
    }
    std::free(memory);
    return cudaSuccess;
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

}  // namespace

/// How often an event was recorded, and how often streams have come there.
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
  std::thread thread;  // the last: it uses the others
};

namespace hipress::cuda {

void runOnHost(Stream stream, std::function<void()> work) {
  stream->push([work = std::move(work)] {
    if (!failsNow()) work();
  });
}

}  // namespace hipress::cuda

const char* cudaGetErrorName(cudaError_t error) {
  return error == cudaErrorIllegalAddress ? "cudaErrorIllegalAddress" : "cudaErrorOfTheTest";
}
const char* cudaGetErrorString(cudaError_t error) {
  return error == cudaErrorIllegalAddress ? "an illegal memory access was encountered"
                                          : "it was told to fail";
}
cudaError_t cudaGetLastError() {
  const cudaError_t before = std::exchange(last, cudaSuccess);
  return failure != cudaSuccess ? static_cast<cudaError_t>(failure.load()) : before;
}

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 2;
  return outcome();
}
cudaError_t cudaGetDevice(int* which) {
  *which = current;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int which) {
  if (which < 0 || which > 1) return outcome(cudaErrorInvalidDevice);
  current = which;
  return outcome();
}

cudaError_t cudaMalloc(void** memory, size_t bytes) {
  return outcome(device().allocate(memory, bytes));
}
cudaError_t cudaFree(void* memory) {
  return outcome(device().free(memory));
}
cudaError_t cudaHostAlloc(void** memory, size_t bytes, unsigned) {
  return outcome(pinned().allocate(memory, bytes));
}
cudaError_t cudaFreeHost(void* memory) {
  return outcome(pinned().free(memory));
}
cudaError_t cudaMemsetAsync(void* memory, int value, size_t bytes, cudaStream_t stream) {
  hipress::cuda::runOnHost(stream, [=] { std::memset(memory, value, bytes); });
  return outcome();
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind, cudaStream_t stream) {
  hipress::cuda::runOnHost(stream, [=] { std::memcpy(to, from, bytes); });
  return outcome();
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = new CUstream_st;
  return outcome();
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  delete stream;
  return outcome();
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  stream->drain();
  return outcome();
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  const auto reached = event->reached;
  uint64_t which = 0;
  {
    const std::lock_guard lock(reached->mutex);
    which = reached->recorded;
  }
  stream->push([reached, which] { reached->wait(which); });
  return outcome();
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = new CUevent_st;
  return outcome();
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const auto reached = event->reached;
  uint64_t which = 0;
  {
    const std::lock_guard lock(reached->mutex);
    which = ++reached->recorded;
  }
  stream->push([reached, which] {
    const std::lock_guard lock(reached->mutex);
    reached->reached = which;
    reached->changed.notify_all();
  });
  return outcome();
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  const auto reached = event->reached;
  uint64_t which = 0;
  {
    const std::lock_guard lock(reached->mutex);
    which = reached->recorded;
  }
  reached->wait(which);
  return outcome();
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return outcome();
}

/// The work after the next `work` pieces fails, and all that comes later; -1: from now on none does.
extern "C" __attribute__((visibility("default"))) void hipress_test_fail_after(int work) {
  workUntilFailure = work;
  if (work < 0) failure = cudaSuccess;
}
