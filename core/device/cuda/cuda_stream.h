// SPDX-License-Identifier: Apache-2.0
//
// A stream of a GPU. A thread sleeps for completions on events (cuEventSynchronize of blocking events). Host
// functions of the stream (cuLaunchHostFunc) would not do: they may not call CUDA, but callbacks put the next
// tasks on streams; the stream waits while one runs; and after an error CUDA does not call them.
#pragma once

#include <memory>

#include "core/device/completion_thread.h"
#include "core/device/cuda/elements.h"
#include "core/device/cuda/kernels.h"
#include "core/device/device.h"

namespace hipress::cuda {

class CudaStream final : public DeviceStream {
 public:
  /// Keeps `device` until the GPU is done. Throws Error.
  CudaStream(std::shared_ptr<Device> device, std::shared_ptr<const Gpu> gpu,
             std::shared_ptr<Kernels> kernels);
  /// On a framework's stream, which is not destroyed; nullptr: the default stream.
  CudaStream(std::shared_ptr<Device> device, std::shared_ptr<const Gpu> gpu, std::shared_ptr<Kernels> kernels,
             DriverStream stream);
  ~CudaStream() override;

  void waitFor(void* event) override;
  void fillZeros(std::span<std::byte> bytes) override;
  void copy(std::byte* to, std::span<const std::byte> from) override;
  void copyToDevice(std::byte* to, std::span<const std::byte> staging) override;
  void copyToHost(std::byte* staging, std::span<const std::byte> from) override;
  void encode(const DeviceEncode& call) override;
  void decode(const DeviceDecode& call) override;
  void sum(const DeviceSum& call) override;
  void makeStatistics(const DeviceSummed& call) override;
  void makeLevels(const DeviceSummed& call) override;
  void finishSum(const DeviceSummed& call) override;
  void combine(Combination combination, DType dtype, std::span<const void* const> contributions, size_t count,
               double factor, void* output) override;
  void add(DType dtype, std::span<const void* const> contributions, float factor, DecodeMode mode,
           std::span<float> sum) override;
  void narrow(std::span<const float> values, DType dtype, void* output) override;
  void flagNotFinite(DType dtype, const void* values, size_t count, uint32_t* flag) override;
  void copyUnlessZero(const uint32_t* word, std::span<const float> values, float* to) override;
  void rescale(std::span<const std::span<float>> values, const float* now, const float* before) override;
  void findNonzero(std::span<const SlotSpan> values) override;
  void findNotFinite(DType dtype, std::span<const SlotSpan> values) override;
  void fillUnlessZero(std::span<const SlotFill> averages, uint32_t* verdict) override;
  void seal(std::span<const SlotSeal> messages, uint32_t* verdict) override;
  void check(std::span<const SlotCheck> messages, uint32_t* verdict) override;
  void restore(std::span<const SlotRestore> states, const uint32_t* verdict) override;
  void together(std::span<const std::function<void()>> lines) override;
  void whenDone(EndCallback callback) override;
  size_t scratchBytes() const override;
  bool close(Milliseconds limit) override;

 private:
  struct Shared;

  /// Runs work(), which returns the result of its calls, unless the stream is closed or has failed.
  template <typename Work>
  void put(const char* what, Work work);
  void putCopy(const char* what, std::byte* to, std::span<const std::byte> from);
  /// Lets another one's code put its work on the stream, behind all work so far. It is called without the
  /// lock, since it may wait for a lock of its own whose owner waits for this one.
  template <typename Work>
  void putOthers(const char* what, const Work& work);
  bool isJoining() const;
  CompletionThread::Reached reachedNow();
  std::shared_ptr<const KernelModule> kernelsOf(const ElementKernels& wanted);
  /// Starts a kernel of slot_kernels.h for all entries.
  template <typename Kernel, typename Entry>
  void putSlots(const char* symbol, Kernel kernel, std::span<const Entry> entries);

  const std::shared_ptr<Kernels> kernels_;
  const std::shared_ptr<Shared> shared_;  // shared with the completion thread: the GPU may hang for longer
  CompletionThread completions_;
};

}  // namespace hipress::cuda
