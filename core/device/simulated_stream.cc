// SPDX-License-Identifier: Apache-2.0
#include "core/device/simulated_stream.h"

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "core/device/simulated_codec.h"
#include "core/element/convert.h"
#include "core/element/reduce.h"
#include "core/thread_name.h"

namespace hipress {
namespace {

/// What a copy to the host leaves there until it has come: nobody may read it yet.
constexpr int kNotThereYet = 0x5C;

template <typename T>
std::span<T> real(SimulatedMemory& memory, std::span<T> values) {
  auto* address = memory.real(values.data(), values.size_bytes());
  return {reinterpret_cast<T*>(address), values.size()};
}

const Codec& codecOf(const DeviceCodec* codec) {
  return static_cast<const SimulatedCodec*>(codec)->codec();
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

/// Sometimes long, mostly not at all.
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
    const auto floats = [&](const float* at) {
      return reinterpret_cast<float*>(memory.real(at, call.input.size_bytes()));
    };
    for (const float* state : call.states.before) before.push_back(floats(state));
    for (const float* state : call.states.after) after.push_back(floats(state));
    auto* result = reinterpret_cast<uint32_t*>(memory.real(call.result, 2 * sizeof(uint32_t)));
    try {
      const size_t bytes =
          codecOf(call.codec)
              .encode(real(memory, call.input), {before, after}, call.context, real(memory, call.message));
      result[0] = static_cast<uint32_t>(bytes);
      result[1] = 0;
    } catch (const Error& error) {
      result[0] = 0;
      result[1] = static_cast<const SimulatedCodec*>(call.codec)->refuse(error.what());
    }
  });
}

void SimulatedStream::decode(const DeviceDecode& call) {
  push([call](SimulatedMemory& memory) {
    auto payload = call.payload;
    if (call.payloadBytes != nullptr) {
      uint32_t bytes = 0;
      std::memcpy(&bytes, memory.real(call.payloadBytes, sizeof bytes), sizeof bytes);
      payload = payload.first(bytes);
    }
    auto* error = reinterpret_cast<uint32_t*>(memory.real(call.error, sizeof(uint32_t)));
    if (!payload.empty()) payload = real(memory, payload);
    try {
      codecOf(call.codec).decode(payload, real(memory, call.output), call.mode);
      *error = 0;
    } catch (const Error& refused) {
      *error = static_cast<const SimulatedCodec*>(call.codec)->refuse(refused.what());
    }
  });
}

void SimulatedStream::reduce(DType dtype, std::span<const void* const> contributions, size_t count,
                             double factor, void* output) {
  push([dtype, list = std::vector<const void*>(contributions.begin(), contributions.end()), count, factor,
        output](SimulatedMemory& memory) {
    const size_t bytes = count * elementSize(dtype);
    std::vector<const void*> values;
    for (const void* each : list) values.push_back(memory.real(each, bytes));
    reduceInOrder(dtype, values, count, factor, memory.real(output, bytes));
  });
}

void SimulatedStream::add(DType dtype, const void* values, float factor, DecodeMode mode,
                          std::span<float> sum) {
  push([dtype, values, factor, mode, sum](SimulatedMemory& memory) {
    const auto target = real(memory, sum);
    std::vector<float> widened(sum.size());
    widen(memory.real(values, sum.size() * elementSize(dtype)), dtype, widened);
    for (size_t i = 0; i < target.size(); ++i) {
      target[i] = mode == DecodeMode::kAssign ? factor * widened[i] : target[i] + factor * widened[i];
    }
  });
}

void SimulatedStream::narrow(std::span<const float> values, DType dtype, void* output) {
  push([values, dtype, output](SimulatedMemory& memory) {
    hipress::narrow(real(memory, values), dtype, memory.real(output, values.size() * elementSize(dtype)));
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
