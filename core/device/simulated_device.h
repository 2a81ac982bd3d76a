// SPDX-License-Identifier: Apache-2.0
//
// A device for tests without a GPU: the processor's codecs on memory that the rest of the program cannot
// access. Each stream is a thread that begins its work late and reports late that it is done. So a caller
// that does not wait for its inputs gets wrong results. The device fails or hangs on request.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>

#include "core/device/device.h"
#include "core/device/simulated_memory.h"

namespace hipress {

struct SimulatedDeviceOptions {
  uint64_t seed = 0;                     ///< seed of the delays
  std::chrono::microseconds delay{200};  ///< the longest delay
  int index = 0;                         ///< "simulated:0"
};

class SimulatedDevice final : public Device, public std::enable_shared_from_this<SimulatedDevice> {
 public:
  /// Use std::make_shared(), because streams keep their device alive.
  explicit SimulatedDevice(SimulatedDeviceOptions options);

  std::string name() const override { return "simulated:" + std::to_string(options_.index); }
  std::shared_ptr<Memory> memory() override { return memory_; }
  std::shared_ptr<Memory> staging() override { return staging_; }
  std::unique_ptr<DeviceStream> makeStream() override;
  /// It has no framework's streams: a stream of its own.
  std::unique_ptr<DeviceStream> makeStreamOn(void* stream) override;
  std::shared_ptr<const DeviceCodec> codec(const CodecPointer& codec) override;
  /// `stream` is an Event, of the only piece of work on it.
  std::shared_ptr<void> eventOn(void* stream) override;

  /// An event for which streams wait.
  class Event {
   public:
    void fire();
    void wait();

   private:
    std::mutex mutex_;
    std::condition_variable fired_;
    bool hasFired_ = false;
  };

  /// The next `work` pieces of work succeed. All later pieces fail.
  void failAfter(int work) { workUntilFailure_ = work; }
  /// Stops all streams until resume().
  void hang();
  void resume();

 private:
  friend class SimulatedStream;

  void waitWhileHung();
  bool failsNow();

  const SimulatedDeviceOptions options_;
  const std::shared_ptr<SimulatedMemory> memory_ = std::make_shared<SimulatedMemory>();
  const std::shared_ptr<SimulatedStaging> staging_ = std::make_shared<SimulatedStaging>();
  std::atomic<uint64_t> streams_{0};
  std::atomic<int> workUntilFailure_{-1};  // -1: none
  std::mutex mutex_;
  std::condition_variable resumed_;
  bool hung_ = false;
};

}  // namespace hipress
