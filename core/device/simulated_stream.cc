// SPDX-License-Identifier: Apache-2.0
#include "core/device/simulated_stream.h"

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "core/base/thread_name.h"
#include "core/device/host_stream.h"

namespace hipress {
namespace {

/// A copy to the host fills the staging memory with this byte until the values have come, because no thread
/// may read the memory earlier.
constexpr int kNotThereYet = 0x5C;

/// Computes on addresses of the device's own mapping.
HostStream host;

template <typename T>
std::span<T> real(SimulatedMemory& memory, std::span<T> values) {
  auto* address = memory.real(values.data(), values.size_bytes());
  return {reinterpret_cast<T*>(address), values.size()};
}

std::vector<const void*> realOf(SimulatedMemory& memory, const std::vector<const void*>& list, size_t bytes) {
  std::vector<const void*> values;
  for (const void* each : list) values.push_back(memory.real(each, bytes));
  return values;
}

}  // namespace

SimulatedStream::SimulatedStream(std::shared_ptr<SimulatedDevice> device, uint64_t seed)
    : shared_(std::make_shared<Shared>()) {
  shared_->device = std::move(device);
  shared_->random.seed(seed);
  thread_ = std::thread([shared = shared_] { serve(shared); });
}

SimulatedStream::~SimulatedStream() {
  close(Milliseconds(0));
}

void SimulatedStream::serve(const std::shared_ptr<Shared>& shared) {
  nameThisThread("stream");
  std::unique_lock lock(shared->mutex);
  for (;;) {
    shared->changed.wait(lock, [&] { return shared->stopped || !shared->work.empty(); });
    if (shared->work.empty()) return;
    Work work = std::move(shared->work.front());
    shared->work.pop_front();
    const bool failed = shared->failure != nullptr;
    lock.unlock();
    Failure failure;
    try {
      shared->device->waitWhileHung();
      pause(*shared);
      if (!failed && shared->device->failsNow()) throw transportError("it was told to fail");
      if (!failed) work(*shared->device->memory_);
    } catch (const std::exception& error) {
      failure = std::make_shared<Error>(ErrorKind::kTransport,
                                        "device " + shared->device->name() + " failed: " + error.what());
    }
    work = nullptr;
    lock.lock();
    if (failure != nullptr) shared->failure = failure;
    ++shared->done;
    shared->changed.notify_all();
  }
}

/// The pause is sometimes long, and mostly 0.
void SimulatedStream::pause(Shared& shared) {
  uint64_t random = 0;
  {
    const std::lock_guard lock(shared.mutex);
    random = shared.random();
  }
  const auto most = static_cast<uint64_t>(shared.device->options_.delay.count());
  if (most > 0 && random % 4 == 0)
    std::this_thread::sleep_for(std::chrono::microseconds((random >> 8) % most));
}

void SimulatedStream::push(Work work) {
  {
    const std::lock_guard lock(shared_->mutex);
    if (shared_->stopped) return;
    shared_->work.push_back(std::move(work));
    ++shared_->pushed;
  }
  shared_->changed.notify_all();
}

void SimulatedStream::waitFor(void* event) {
  push([event](SimulatedMemory&) { static_cast<SimulatedDevice::Event*>(event)->wait(); });
}

void SimulatedStream::fillZeros(std::span<std::byte> bytes) {
  if (!bytes.empty()) push([bytes](SimulatedMemory& memory) { host.fillZeros(real(memory, bytes)); });
}

void SimulatedStream::copy(std::byte* to, std::span<const std::byte> from) {
  if (from.empty()) return;
  push([to, from](SimulatedMemory& memory) { host.copy(memory.real(to, from.size()), real(memory, from)); });
}

void SimulatedStream::copyToDevice(std::byte* to, std::span<const std::byte> staging) {
  if (staging.empty()) return;
  push([device = shared_->device.get(), to, staging](SimulatedMemory& memory) {
    device->staging_->check(staging.data(), staging.size());
    std::memcpy(memory.real(to, staging.size()), staging.data(), staging.size());
  });
}

void SimulatedStream::copyToHost(std::byte* staging, std::span<const std::byte> from) {
  if (from.empty()) return;
  std::memset(staging, kNotThereYet, from.size());
  push([device = shared_->device.get(), staging, from](SimulatedMemory& memory) {
    device->staging_->check(staging, from.size());
    std::memcpy(staging, memory.real(from.data(), from.size()), from.size());
  });
}

void SimulatedStream::encode(const DeviceEncode& call) {
  push([call](SimulatedMemory& memory) {
    std::vector<const float*> before;
    std::vector<float*> after;
    const auto floats = [&](const float* at, size_t state) {
      const size_t count = call.codec->states()[state].count(call.input.size());
      return reinterpret_cast<float*>(memory.real(at, count * sizeof(float)));
    };
    for (size_t state = 0; state < call.states.before.size(); ++state) {
      before.push_back(floats(call.states.before[state], state));
      after.push_back(floats(call.states.after[state], state));
    }
    DeviceEncode there = call;
    there.input = real(memory, call.input);
    there.states = {before, after};
    there.message = real(memory, call.message);
    there.result = reinterpret_cast<uint32_t*>(memory.real(call.result, 2 * sizeof(uint32_t)));
    host.encode(there);
  });
}

void SimulatedStream::decode(const DeviceDecode& call) {
  push([call](SimulatedMemory& memory) {
    DeviceDecode there = call;
    if (call.payloadBytes != nullptr) {
      uint32_t bytes = 0;
      std::memcpy(&bytes, memory.real(call.payloadBytes, sizeof bytes), sizeof bytes);
      there.payload = call.payload.first(bytes);
    }
    if (!there.payload.empty()) there.payload = real(memory, there.payload);
    there.output = real(memory, call.output);
    there.payloadBytes = nullptr;
    there.error = reinterpret_cast<uint32_t*>(memory.real(call.error, sizeof(uint32_t)));
    host.decode(there);
  });
}

void SimulatedStream::combine(Combination combination, DType dtype,
                              std::span<const void* const> contributions, size_t count, double factor,
                              void* output) {
  push([=, list = std::vector(contributions.begin(), contributions.end())](SimulatedMemory& memory) {
    const size_t bytes = count * elementSize(dtype);
    host.combine(combination, dtype, realOf(memory, list, bytes), count, factor, memory.real(output, bytes));
  });
}

void SimulatedStream::add(DType dtype, std::span<const void* const> contributions, float factor,
                          DecodeMode mode, std::span<float> sum) {
  push([=, list = std::vector(contributions.begin(), contributions.end())](SimulatedMemory& memory) {
    const auto values = realOf(memory, list, sum.size() * elementSize(dtype));
    host.add(dtype, values, factor, mode, real(memory, sum));
  });
}

void SimulatedStream::narrow(std::span<const float> values, DType dtype, void* output) {
  push([values, dtype, output](SimulatedMemory& memory) {
    host.narrow(real(memory, values), dtype, memory.real(output, values.size() * elementSize(dtype)));
  });
}

void SimulatedStream::flagNotFinite(DType dtype, const void* values, size_t count, uint32_t* flag) {
  if (count == 0) return;
  push([=](SimulatedMemory& memory) {
    auto* const there = reinterpret_cast<uint32_t*>(memory.real(flag, sizeof(uint32_t)));
    host.flagNotFinite(dtype, memory.real(values, count * elementSize(dtype)), count, there);
  });
}

void SimulatedStream::copyUnlessZero(const uint32_t* word, std::span<const float> values, float* to) {
  if (values.empty()) return;
  push([word, values, to](SimulatedMemory& memory) {
    const auto* const there = reinterpret_cast<const uint32_t*>(memory.real(word, sizeof(uint32_t)));
    auto* const output = reinterpret_cast<float*>(memory.real(to, values.size_bytes()));
    host.copyUnlessZero(there, real(memory, values), output);
  });
}

void SimulatedStream::whenDone(EndCallback callback) {
  uint64_t place = 0;
  {
    const std::lock_guard lock(shared_->mutex);
    place = shared_->pushed;
  }
  completions_.push(
      [shared = shared_, place] {
        Failure failure;
        {
          std::unique_lock lock(shared->mutex);
          shared->changed.wait(lock, [&] { return shared->done >= place; });
          failure = shared->failure;
        }
        pause(*shared);
        return failure;
      },
      std::move(callback));
}

bool SimulatedStream::close(Milliseconds limit) {
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->stopped = true;
  }
  shared_->changed.notify_all();
  const bool done = completions_.stop(limit);
  if (!thread_.joinable()) return done;
  if (done) {
    thread_.join();
  } else {
    thread_.detach();
  }
  return done;
}

}  // namespace hipress
