// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "core/device/cuda/cuda_stream.h"
#include "core/device/cuda/kernel_batch.h"
#include "core/ops/cuda/cuda_codec.h"

namespace hipress::cuda {

/// The most lines of a batch.
inline constexpr size_t kMostJoined = 4096;

/// The parts that the GPU may still use when the stream's owner has ended.
struct CudaStream::Shared {
  /// Host memory from which the GPU copies until the event.
  struct Staged {
    void* memory = nullptr;
    size_t bytes = 0;
    DriverEvent copied = nullptr;
  };

  /// Tables of joined starts, in the device's memory.
  struct Tables {
    std::vector<std::byte> content;
    Address memory = 0;
    size_t room = 0;
  };

  Shared(std::shared_ptr<Device> owner, std::shared_ptr<const Gpu> used)
      : device(std::move(owner)), gpu(std::move(used)), driver(gpu->driver) {}
  ~Shared();
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;

  /// Whether this thread adds to a batch.
  bool isJoining() const { return batch != nullptr && joiner == std::this_thread::get_id(); }
  KernelLauncher launcher(const KernelModule& module) const {
    return {module, stream, isJoining() ? batch : nullptr};
  }
  /// Until the next call, in a batch until its end. Returns nullptr, with the failure in `status`, if memory
  /// is short.
  void* scratchOf(size_t bytes, Result* status);
  /// The counters of the line at hand, or of work that is not joined: zeros, which work leaves as zeros.
  /// Returns nullptr, with the failure in `status`, if memory is short.
  Counters* countersOf(Result* status);
  /// Gives a codec's call `bytes` of scratch memory, and counters.
  template <typename Call>
  Result lend(size_t bytes, Call* call) {
    Result status = kSuccess;
    call->scratch = scratchOf(bytes, &status);
    if (status == kSuccess) call->counters = countersOf(&status);
    return status;
  }
  /// Starts what has been joined.
  Result start(const KernelBatch& joined);
  /// The place of these tables in the device's memory. Steps are alike, so that it often has them already.
  const std::byte* tablesOf(std::vector<std::byte> content, Result* status);
  /// Room for tables of this size: new, or the room of those that were used least lately. In `scratch` if
  /// neither is there.
  Address roomForTables(size_t bytes, Result* status);
  /// Host memory of these bytes that the GPU copies later; nullptr, with the failure in `status`.
  void* stage(const std::vector<std::byte>& bytes, Result* status);
  /// A recorded event; nullptr: the recording failed.
  DriverEvent record();
  /// Sleeps until the GPU has reached the event; nullptr: until all work on the stream is done.
  Failure wait(DriverEvent event);
  void fail(const char* what, Result status);

  const std::shared_ptr<Device> device;
  const std::shared_ptr<const Gpu> gpu;
  const Driver& driver;
  DriverStream stream = nullptr;
  bool owned = false;  // The stream ends with this object.
  std::mutex mutex;
  std::vector<DriverEvent> events;  // not in use
  std::vector<void*> scratch;       // the last one is the largest; earlier ones may still be in use
  size_t scratchBytes = 0;          // of the last one
  size_t usedBytes = 0;             // of the last one, by the batch
  size_t heldBytes = 0;             // of all
  Counters* counters = nullptr;     // kMostJoined of them, or nullptr
  size_t line = 0;                  // of the batch
  std::vector<Staged> staged;
  std::vector<Tables> tables;  // the last one was used last
  size_t tablesBytes = 0;      // the room of all
  KernelBatch* batch = nullptr;
  std::thread::id joiner;  // of the batch
  Failure failure;
  bool closed = false;
};

}  // namespace hipress::cuda
