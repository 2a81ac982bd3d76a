// SPDX-License-Identifier: Apache-2.0
#include "core/device/simulated_device.h"

#include <utility>

#include "core/device/host_codec.h"
#include "core/device/simulated_stream.h"

namespace hipress {

SimulatedDevice::SimulatedDevice(SimulatedDeviceOptions options) : options_(options) {}

std::unique_ptr<DeviceStream> SimulatedDevice::makeStream() {
  return std::make_unique<SimulatedStream>(shared_from_this(), options_.seed * 1000 + streams_++);
}

std::unique_ptr<DeviceStream> SimulatedDevice::makeStreamOn(void* /*stream*/) {
  return makeStream();
}

std::shared_ptr<const DeviceCodec> SimulatedDevice::codec(const CodecPointer&) {
  return std::make_shared<HostCodec>();
}

std::shared_ptr<void> SimulatedDevice::eventOn(void* stream) {
  return {stream, [](void*) {}};
}

void SimulatedDevice::Event::fire() {
  const std::lock_guard lock(mutex_);
  hasFired_ = true;
  fired_.notify_all();
}

void SimulatedDevice::Event::wait() {
  std::unique_lock lock(mutex_);
  fired_.wait(lock, [this] { return hasFired_; });
}

void SimulatedDevice::hang() {
  const std::lock_guard lock(mutex_);
  hung_ = true;
}

void SimulatedDevice::resume() {
  const std::lock_guard lock(mutex_);
  hung_ = false;
  resumed_.notify_all();
}

void SimulatedDevice::waitWhileHung() {
  std::unique_lock lock(mutex_);
  resumed_.wait(lock, [this] { return !hung_; });
}

bool SimulatedDevice::failsNow() {
  int left = workUntilFailure_;
  while (left > 0 && !workUntilFailure_.compare_exchange_weak(left, left - 1)) {
  }
  return left == 0;
}

}  // namespace hipress
