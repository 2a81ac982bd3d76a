// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <thread>

#include "core/device/completion_thread.h"
#include "core/device/simulated_device.h"

namespace hipress {

class SimulatedStream final : public DeviceStream {
 public:
  SimulatedStream(std::shared_ptr<SimulatedDevice> device, uint64_t seed);
  ~SimulatedStream() override;

  void waitFor(void* event) override;
  void fillZeros(std::span<std::byte> bytes) override;
  void copy(std::byte* to, std::span<const std::byte> from) override;
  void copyToDevice(std::byte* to, std::span<const std::byte> staging) override;
  void copyToHost(std::byte* staging, std::span<const std::byte> from) override;
  void encode(const DeviceEncode& call) override;
  void decode(const DeviceDecode& call) override;
  void combine(Combination combination, DType dtype, std::span<const void* const> contributions, size_t count,
               double factor, void* output) override;
  void add(DType dtype, std::span<const void* const> contributions, float factor, DecodeMode mode,
           std::span<float> sum) override;
  void narrow(std::span<const float> values, DType dtype, void* output) override;
  void flagNotFinite(DType dtype, const void* values, size_t count, uint32_t* flag) override;
  void copyUnlessZero(const uint32_t* word, std::span<const float> values, float* to) override;
  void whenDone(EndCallback callback) override;
  size_t scratchBytes() const override { return 0; }  // its codecs compute on the host
  bool close(Milliseconds limit) override;

 private:
  using Work = std::function<void(SimulatedMemory&)>;

  /// Shared by stream and thread, because the thread may hang for longer than the stream lives.
  struct Shared {
    std::shared_ptr<SimulatedDevice> device;
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<Work> work;
    uint64_t pushed = 0;
    uint64_t done = 0;
    Failure failure;
    bool stopped = false;
    std::mt19937_64 random;
  };

  static void serve(const std::shared_ptr<Shared>& shared);
  static void pause(Shared& shared);
  void push(Work work);

  std::shared_ptr<Shared> shared_;
  std::thread thread_;
  CompletionThread completions_;
};

}  // namespace hipress
