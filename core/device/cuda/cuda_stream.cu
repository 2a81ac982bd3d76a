// SPDX-License-Identifier: Apache-2.0
#include "core/device/cuda/cuda_stream.h"

#include <algorithm>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "core/device/cuda/calls.h"
#include "core/device/cuda/codec_functions.h"
#include "core/device/cuda/elements.h"
#include "core/element/reduce.h"

namespace hipress::cuda {

/// What the GPU may still be using when the stream's owner is gone.
struct CudaStream::Shared {
  Shared(std::shared_ptr<Device> owner, int number) : device(std::move(owner)), ordinal(number) {}
  ~Shared();
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;

  /// nullptr, with the failure, if there is no more.
  void* scratchOf(size_t bytes, cudaError_t* status);
  /// A recorded event; nullptr if it could not be.
  cudaEvent_t record();
  /// Sleeps until the GPU has come to the event; without one, to all that is on the stream.
  Failure wait(cudaEvent_t event);
  void fail(const char* what, cudaError_t status);

  const std::shared_ptr<Device> device;
  const int ordinal;
  cudaStream_t stream = nullptr;
  std::mutex mutex;
  std::vector<cudaEvent_t> events;  // not in use
  std::vector<void*> scratch;       // the last is the largest; the others may still be in use
  size_t scratchBytes = 0;          // of the last
  size_t heldBytes = 0;             // of all
  Failure failure;
  bool closed = false;
};

CudaStream::Shared::~Shared() {
  const OnDevice there(ordinal);
  for (const cudaEvent_t event : events) cudaEventDestroy(event);
  for (void* block : scratch) cudaFree(block);
  if (stream != nullptr) cudaStreamDestroy(stream);
}

void* CudaStream::Shared::scratchOf(size_t bytes, cudaError_t* status) {
  if (bytes <= scratchBytes) return scratch.empty() ? nullptr : scratch.back();
  // At least doubled: all that was outgrown takes no more than the last.
  const size_t room = std::max(bytes, 2 * scratchBytes);
  void* block = nullptr;
  *status = cudaMalloc(&block, room);
  if (*status != cudaSuccess) return nullptr;
  scratch.push_back(block);
  scratchBytes = room;
  heldBytes += room;
  return block;
}

cudaEvent_t CudaStream::Shared::record() {
  cudaEvent_t event = nullptr;
  if (!events.empty()) {
    event = events.back();
    events.pop_back();
  } else if (cudaEventCreateWithFlags(&event, cudaEventDisableTiming | cudaEventBlockingSync) !=
             cudaSuccess) {
    return nullptr;
  }
  if (cudaEventRecord(event, stream) == cudaSuccess) return event;
  cudaEventDestroy(event);
  return nullptr;
}

Failure CudaStream::Shared::wait(cudaEvent_t event) {
  const OnDevice there(ordinal);
  const cudaError_t status = event != nullptr ? cudaEventSynchronize(event) : cudaStreamSynchronize(stream);
  const std::lock_guard lock(mutex);
  if (event != nullptr) events.push_back(event);
  if (status != cudaSuccess) fail("its earlier work", status);
  return failure;
}

void CudaStream::Shared::fail(const char* what, cudaError_t status) {
  if (failure == nullptr) failure = std::make_shared<Error>(deviceError(ordinal, what, status));
}

CudaStream::CudaStream(std::shared_ptr<Device> device, int ordinal)
    : shared_(std::make_shared<Shared>(std::move(device), ordinal)) {
  const OnDevice there(ordinal);
  check(ordinal, "cudaSetDevice", there.status());
  // Non-blocking: it does not wait for the framework's default stream, only for the events that it is given.
  check(ordinal, "cudaStreamCreateWithFlags",
        cudaStreamCreateWithFlags(&shared_->stream, cudaStreamNonBlocking));
}

CudaStream::~CudaStream() {
  close(Milliseconds(0));
}

template <typename Work>
void CudaStream::put(const char* what, Work work) {
  // Held for all calls of a piece of work: what other threads put here comes before or after it, and the
  // scratch memory is one piece's at a time.
  const std::lock_guard lock(shared_->mutex);
  if (shared_->closed || shared_->failure != nullptr) return;
  const OnDevice there(shared_->ordinal);
  if (there.status() != cudaSuccess) return shared_->fail("cudaSetDevice", there.status());
  cudaGetLastError();  // what others left in this thread
  const cudaError_t status = work();
  // Launches say so only here.
  const cudaError_t launched = cudaGetLastError();
  if (status != cudaSuccess || launched != cudaSuccess)
    shared_->fail(what, status != cudaSuccess ? status : launched);
}

void CudaStream::waitFor(void* event) {
  put("cudaStreamWaitEvent",
      [&] { return cudaStreamWaitEvent(shared_->stream, static_cast<cudaEvent_t>(event), 0); });
}

void CudaStream::copyToDevice(std::byte* to, std::span<const std::byte> staging) {
  if (staging.empty()) return;
  put("a copy to it", [&] {
    return cudaMemcpyAsync(to, staging.data(), staging.size(), cudaMemcpyHostToDevice, shared_->stream);
  });
}

void CudaStream::copyToHost(std::byte* staging, std::span<const std::byte> from) {
  if (from.empty()) return;
  put("a copy from it", [&] {
    return cudaMemcpyAsync(staging, from.data(), from.size(), cudaMemcpyDeviceToHost, shared_->stream);
  });
}

void CudaStream::encode(const DeviceEncode& call) {
  const auto& codec = static_cast<const CodecFunctions&>(*call.codec);
  put("an encode", [&] {
    CudaEncode given{};
    given.params = codec.params();
    given.gradient = call.input.data();
    given.count = call.input.size();
    given.before = call.states.before.empty() ? nullptr : call.states.before.data();
    given.after = call.states.after.empty() ? nullptr : call.states.after.data();
    given.seed = call.context.seed;
    given.step = call.context.step;
    given.firstElement = call.context.firstElement;
    given.tensor = call.context.tensor;
    given.scale = call.context.scale;
    given.message = reinterpret_cast<uint8_t*>(call.message.data());
    given.messageBytes = call.result;
    given.error = call.result + 1;
    cudaError_t status = cudaSuccess;
    const size_t bytes = codec.table().encodeScratchBytes(given.params, given.count);
    given.scratch = shared_->scratchOf(bytes, &status);
    if (status == cudaSuccess) codec.table().encode(given, shared_->stream);
    return status;
  });
}

void CudaStream::decode(const DeviceDecode& call) {
  const auto& codec = static_cast<const CodecFunctions&>(*call.codec);
  put("a decode", [&] {
    CudaDecode given{};
    given.params = codec.params();
    given.payload = reinterpret_cast<const uint8_t*>(call.payload.data());
    given.payloadBytes = call.payloadBytes;
    given.capacity = call.payload.size();
    given.output = call.output.data();
    given.count = call.output.size();
    given.accumulate = call.mode == DecodeMode::kAccumulate ? 1 : 0;
    given.error = call.error;
    cudaError_t status = cudaSuccess;
    const size_t bytes = codec.table().decodeScratchBytes(given.params, given.count, given.capacity);
    given.scratch = shared_->scratchOf(bytes, &status);
    if (status == cudaSuccess) codec.table().decode(given, shared_->stream);
    return status;
  });
}

void CudaStream::reduce(DType dtype, std::span<const void* const> contributions, size_t count, double factor,
                        void* output) {
  checkReduction(dtype, contributions, factor);
  put("a sum", [&] {
    cudaError_t status = cudaSuccess;
    void* scratch = shared_->scratchOf(reduceScratchBytes(contributions.size(), count), &status);
    if (status == cudaSuccess)
      reduceInOrder(dtype, contributions, count, factor, output, scratch, shared_->stream);
    return status;
  });
}

void CudaStream::add(DType dtype, const void* values, float factor, DecodeMode mode, std::span<float> sum) {
  put("a sum", [&] {
    cuda::add(dtype, values, factor, mode, sum, shared_->stream);
    return cudaSuccess;
  });
}

void CudaStream::narrow(std::span<const float> values, DType dtype, void* output) {
  put("a conversion", [&] {
    cuda::narrow(values, dtype, output, shared_->stream);
    return cudaSuccess;
  });
}

/// Returns when the GPU has come to where the stream is now. Called with the mutex held.
CompletionThread::Reached CudaStream::reachedNow() {
  const OnDevice there(shared_->ordinal);
  return [shared = shared_, event = shared_->record()] { return shared->wait(event); };
}

void CudaStream::whenDone(EndCallback callback) {
  {
    const std::lock_guard lock(shared_->mutex);
    // Within the lock, so that callbacks come in the order of events.
    if (!shared_->closed) return completions_.push(reachedNow(), std::move(callback));
  }
  callback(std::make_shared<Error>(ErrorKind::kNotInitialized,
                                   "device " + deviceName(shared_->ordinal) + " was closed"));
}

size_t CudaStream::scratchBytes() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->heldBytes;
}

bool CudaStream::close(Milliseconds limit) {
  {
    const std::lock_guard lock(shared_->mutex);
    // Also work that nobody asked about is waited for.
    if (!shared_->closed) completions_.push(reachedNow(), [](const Failure&) {});
    shared_->closed = true;
  }
  return completions_.stop(limit);
}

}  // namespace hipress::cuda
