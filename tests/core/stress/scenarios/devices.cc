// SPDX-License-Identifier: Apache-2.0
//
// Tensors on simulated devices, on all ranks or on some: all ranks get the same bytes, and with `none` the
// exact bytes. In other rounds a device fails or hangs for a while, or an engine ends: everything must end,
// and a sanitizer, or the device itself, reports memory that was freed too early.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/codec/wire/crc32c.h"
#include "core/codec/wire/wire_header.h"
#include "core/device/simulated_device.h"
#include "tests/core/stress/scenarios/scenarios.h"
#include "tests/core/stress/world/check.h"
#include "tests/core/stress/world/workload.h"
#include "tests/core/stress/world/world.h"

namespace hipress::stress {
namespace {

using Devices = std::vector<std::shared_ptr<SimulatedDevice>>;  // by rank; nullptr: in host memory

/// The values of one submission, in the rank's device or host memory.
class Values {
 public:
  Values(std::shared_ptr<SimulatedDevice> device, std::shared_ptr<StepMemory> memory)
      : device_(std::move(device)), memory_(std::move(memory)) {
    if (device_ == nullptr) return;
    const size_t bytes = memory_->input.size();
    input_ = device_->memory()->allocate(bytes);
    device_->memory()->write(input_, memory_->input.data(), bytes);
    output_ = memory_->inPlace ? input_ : device_->memory()->allocate(bytes);
  }
  ~Values() {
    if (device_ == nullptr) return;
    if (output_ != input_) device_->memory()->free(output_);
    device_->memory()->free(input_);
  }
  Values(const Values&) = delete;
  Values& operator=(const Values&) = delete;

  Submission submission(const std::shared_ptr<Values>& self, Releases& releases) const {
    Submission submission = submissionOf(memory_, releases);
    if (device_ == nullptr) return submission;
    if (submission.input != nullptr) submission.input = input_;
    submission.output = output_;
    submission.keepAlive = std::make_shared<std::pair<std::shared_ptr<void>, std::shared_ptr<Values>>>(
        std::move(submission.keepAlive), self);
    return submission;
  }

  std::vector<std::byte> result() const {
    if (device_ == nullptr) return memory_->inPlace ? memory_->input : memory_->output;
    std::vector<std::byte> bytes(memory_->input.size());
    device_->memory()->read(output_, bytes.data(), bytes.size());
    return bytes;
  }

 private:
  const std::shared_ptr<SimulatedDevice> device_;
  const std::shared_ptr<StepMemory> memory_;
  void* input_ = nullptr;
  void* output_ = nullptr;
};

using Results = std::vector<std::vector<std::byte>>;  // empty: no rank had values

/// Runs all steps of one rank. Throws the first error.
Results runRank(Engine& engine, const std::shared_ptr<SimulatedDevice>& device, const Workload& workload,
                Releases& releases) {
  std::vector<TensorSpec> specs = workload.specs;
  for (auto& spec : specs) spec.device = device;
  const auto handles = engine.declare(std::move(specs));
  Results results;
  for (int step = 0; step < workload.steps; ++step) {
    std::vector<std::pair<OperationHandle, std::shared_ptr<Values>>> pending;
    for (size_t tensor = 0; tensor < handles.size(); ++tensor) {
      auto values = std::make_shared<Values>(device, memoryFor(workload, tensor, step, engine.rank()));
      const auto operation = engine.submit(handles[tensor], values->submission(values, releases));
      pending.emplace_back(operation, std::move(values));
    }
    for (const auto& [operation, values] : pending) {
      bool absent = false;
      while (!engine.wait(operation, Milliseconds(50), &absent)) {
      }
      results.push_back(absent ? std::vector<std::byte>() : values->result());
    }
  }
  return results;
}

Devices randomDevices(Random& random, int size) {
  Devices devices;
  for (int rank = 0; rank < size; ++rank) {
    SimulatedDeviceOptions options;
    options.seed = random.seed();
    options.delay = std::chrono::microseconds(random.among({0, 50, 1000}));
    options.index = rank;
    devices.push_back(random.oneIn(4) ? nullptr : std::make_shared<SimulatedDevice>(options));
  }
  return devices;
}

Workload deviceWorkload(Random& random, int size) {
  Workload workload = randomWorkload(random, size, 8);
  for (TensorSpec& spec : workload.specs) {
    auto* options = std::get_if<AllreduceOptions>(&spec.options);
    // PowerSGD computes on the host only.
    if (options != nullptr && options->codec.starts_with("powersgd")) options->codec = "none";
  }
  for (auto& spec : workload.specs) {
    if (auto* options = std::get_if<AllreduceOptions>(&spec.options))
      options->topology = random.among({"ps", "ring", "allgather", "hierarchical"});
  }
  return workload;
}

void allEndWell(Random& random) {
  const int size = random.among({1, 2, 3, 4});
  const Devices devices = randomDevices(random, size);
  const Workload workload = deviceWorkload(random, size);
  EngineOptions options = randomOptions(random);
  for (int rank = 0; rank < size; ++rank) options.hosts.push_back(rank / 2);
  if (random.oneIn(3)) options.trace = std::make_shared<TraceRecorder>(0, 1000);
  World world = inprocWorld(size, options);
  Releases releases;
  std::vector<Results> byRank(static_cast<size_t>(size));
  inThreads(size, [&](int rank) {
    const auto index = static_cast<size_t>(rank);
    byRank[index] = runRank(*world.engines[index], devices[index], workload, releases);
  });
  for (const auto& results : byRank) CHECK(results == byRank[0]);
  for (size_t index = 0; index < byRank[0].size(); ++index) {
    const TensorSpec& spec = workload.specs[index % workload.specs.size()];
    const AllreduceOptions* how = spec.allreduce();
    // Another topology adds in another order.
    if (how != nullptr && (how->topology != "ps" || how->codec != "none")) continue;
    std::vector<std::byte> expected;
    expectedOf(workload, index % workload.specs.size(), static_cast<int>(index / workload.specs.size()),
               &expected);
    CHECK(byRank[0][index] == expected, spec.describe());
  }
  CHECK(releases.given == releases.returned, releases.given, releases.returned);
  shutDown(world);
}

void somethingGoesWrong(Random& random) {
  const int size = random.among({2, 3});
  const Devices devices = randomDevices(random, size);
  const Workload workload = deviceWorkload(random, size);
  EngineOptions options = randomOptions(random);
  options.timeout = Milliseconds(random.among({300, 3000}));
  World world = inprocWorld(size, options);
  const size_t victim = random.below(static_cast<size_t>(size));
  const size_t kind = random.below(3);
  const auto after = std::chrono::microseconds(random.below(20000));
  if (kind == 0 && devices[victim]) devices[victim]->failAfter(static_cast<int>(random.below(60)));
  Releases releases;
  std::thread saboteur([&] {
    std::this_thread::sleep_for(after);
    if (kind == 1 && devices[victim]) devices[victim]->hang();
    if (kind == 2) world.engines[victim]->shutdown(Milliseconds(0));
    std::this_thread::sleep_for(Milliseconds(kind == 1 ? 600 : 0));
    if (devices[victim]) devices[victim]->resume();
  });
  inThreads(size, [&](int rank) {
    const auto index = static_cast<size_t>(rank);
    try {
      runRank(*world.engines[index], devices[index], workload, releases);
    } catch (const Error&) {
      // Which error it is depends on the first failure.
    }
    world.engines[index]->shutdown(Milliseconds(0));
  });
  saboteur.join();
  world.engines.clear();
  CHECK(releases.given == releases.returned, releases.given, releases.returned);
  for (const auto& device : devices) CHECK(!device || device->memory()->blocks() == 0);
}

/// The payload has a right checksum but a wrong content.
void aPayloadThatOnlyTheDeviceRefuses(Random& random) {
  const Intercept corrupt = [](InprocMessage& message) {
    WireHeader header;
    std::memcpy(&header, message.header.data(), sizeof header);
    if ((header.flags & kFlagChecksum) == 0) return true;
    std::ranges::fill(message.payload, std::byte{0xFF});
    header.checksum = crc32c(message.payload);
    std::memcpy(message.header.data(), &header, sizeof header);
    return true;
  };
  World world = inprocWorld(2, randomOptions(random), corrupt);
  const auto device = std::make_shared<SimulatedDevice>(SimulatedDeviceOptions{.seed = random.seed()});
  Workload workload;
  workload.seed = random.seed();
  workload.worldSize = 2;
  workload.steps = 20;  // in some steps no rank may have values
  TensorSpec& spec = workload.specs.emplace_back();
  spec.name = "w";
  spec.count = 5000;
  std::get<AllreduceOptions>(spec.options).codec = "dgc";
  Releases releases;
  std::atomic<int> refused{0};
  inThreads(2, [&](int rank) {
    Engine& engine = *world.engines[static_cast<size_t>(rank)];
    try {
      runRank(engine, device, workload, releases);
    } catch (const Error& error) {
      const std::string text = error.what();
      CHECK(error.kind() == ErrorKind::kCorruptPayload, text);
      CHECK(text.find("tensor 'w'") != std::string::npos, text);
      ++refused;
    }
    engine.shutdown(Milliseconds(0));
  });
  CHECK(refused == 2);
}

/// Closing a stream whose device hangs returns in time. The objects that its callbacks hold stay alive until
/// the device goes on.
void closedWhileHanging(Random& random) {
  SimulatedDeviceOptions options;
  options.seed = random.seed();
  const auto device = std::make_shared<SimulatedDevice>(options);
  void* const block = device->memory()->allocate(64);
  auto held = std::make_shared<int>(0);
  std::atomic<int> called{0};
  auto stream = device->makeStream();
  device->hang();
  stream->narrow({static_cast<float*>(block), 1}, DType::kFloat32, static_cast<float*>(block) + 1);
  stream->whenDone([held, &called](const Failure&) { ++called; });
  CHECK(!stream->close(Milliseconds(20)));
  stream.reset();
  CHECK(held.use_count() == 2);
  device->resume();
  while (held.use_count() != 1) std::this_thread::sleep_for(Milliseconds(1));
  CHECK(called == 0);
  device->memory()->free(block);
}

}  // namespace

void stressDevices(Random& random) {
  if (random.oneIn(8)) return closedWhileHanging(random);
  if (random.oneIn(8)) return aPayloadThatOnlyTheDeviceRefuses(random);
  if (random.oneIn(2)) return somethingGoesWrong(random);
  allEndWell(random);
}

}  // namespace hipress::stress
