// SPDX-License-Identifier: Apache-2.0
//
// Missing memory on threads that have no caller: lanes, the network's thread, threads of devices, the thread
// that ended another operation. The job ends with an error that names the tensor, and no link or lane stops.
#include <condition_variable>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "core/casync/compute/compute_queue.h"
#include "core/casync/graph/shares.h"
#include "core/casync/graph/topologies/exchange.h"
#include "core/casync/send/communication_queue.h"
#include "core/control/local_control.h"
#include "core/device/simulated_device.h"
#include "core/transport/inproc.h"
#include "tests/core/stress/scenarios/scenarios.h"
#include "tests/core/stress/world/check.h"
#include "tests/core/stress/world/fake_transport.h"
#include "tests/core/stress/world/starved_device.h"
#include "tests/core/stress/world/starved_transport.h"
#include "tests/core/stress/world/world.h"

namespace hipress::stress {
namespace {

using Starves = StarvedTransport::Starves;

TensorSpec tensor(const std::string& name, const std::string& topology) {
  TensorSpec spec;
  spec.name = name;
  spec.count = 100;
  spec.shape = "[100]";
  AllreduceOptions way;
  way.topology = topology;
  spec.options = way;
  return spec;
}

/// Ranks of which `hungry` lacks memory for the messages for which the functions return true.
World hungryWorld(int size, int hungry, const EngineOptions& options, Starves send, Starves receive) {
  auto controls = makeLocalControl(size);
  auto transports = makeInprocTransports({size, nullptr, nullptr});
  auto& starved = transports[static_cast<size_t>(hungry)];
  starved = std::make_unique<StarvedTransport>(std::move(starved), std::move(send), std::move(receive));
  World world;
  for (size_t rank = 0; rank < transports.size(); ++rank) {
    std::shared_ptr<ControlPlane> control = std::move(controls[rank]);
    world.engines.push_back(
        std::make_shared<Engine>(std::move(control), std::move(transports[rank]), options));
  }
  return world;
}

OperationHandle submitOnes(Engine& engine, TensorHandle handle) {
  const auto values = std::make_shared<std::vector<float>>(100, 1.0f);
  Submission submission;
  submission.input = submission.output = values->data();
  submission.keepAlive = values;
  return engine.submit(handle, std::move(submission));
}

/// The error of an operation; empty: it ended well.
std::string endOf(Engine& engine, OperationHandle operation) {
  try {
    while (!engine.wait(operation, Milliseconds(1000))) continue;
    return {};
  } catch (const Error& error) {
    return error.what();
  }
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// In a ring a rank passes the arrived result on without a computation between. The exception comes on the
/// network's thread.
void memoryMissingBehindAReceiveEndsTheJob() {
  constexpr int kRanks = 3;
  const TensorSpec spec = tensor("w", "ring");
  const int hungry = (firstAggregator(spec.name, kRanks) + 1) % kRanks;
  World world = hungryWorld(
      kRanks, hungry, EngineOptions(), [](const MessageTag& tag) { return tag.hop == kFromAggregate; },
      nullptr);
  inThreads(kRanks, [&](int rank) {
    Engine& engine = *world.engines[static_cast<size_t>(rank)];
    const auto handles = engine.declare({spec});
    const std::string end = endOf(engine, submitOnes(engine, handles.front()));
    // The other ranks have their results before they learn of the failure.
    CHECK(rank != hungry || !end.empty(), "the rank without memory ended well");
    CHECK(end.empty() || has(end, "of tensor 'w' failed: std::bad_alloc"), end);
  });
  shutDown(world);
}

/// Without pipelining the thread that ends one operation starts the next one.
void memoryMissingAtAStartEndsThatOperation() {
  constexpr int kRanks = 2;
  EngineOptions options;
  options.pipelining = false;
  World world =
      hungryWorld(kRanks, 1, options, nullptr, [](const MessageTag& tag) { return tag.tensor == 2; });
  inThreads(kRanks, [&](int rank) {
    Engine& engine = *world.engines[static_cast<size_t>(rank)];
    const auto handles = engine.declare({tensor("first", "ps"), tensor("second", "ps")});
    const OperationHandle first = submitOnes(engine, handles[0]);
    std::string late;
    OperationHandle second{};
    try {
      second = submitOnes(engine, handles[1]);
    } catch (const Error& error) {  // the other rank has ended the job before
      late = error.what();
    }
    const std::string early = endOf(engine, first);
    CHECK(early.empty() || has(early, "tensor 'second' could not be started: std::bad_alloc"), early);
    if (late.empty()) late = endOf(engine, second);
    CHECK(has(late, "tensor 'second' could not be started: std::bad_alloc"), late);
  });
  shutDown(world);
}

/// Whichever of a device's callbacks cannot be noted, the job ends, and no memory goes that the device uses.
void memoryMissingOnADeviceEndsTheJob() {
  constexpr int kRanks = 2;
  bool ended = false;
  for (int after = 0; !ended; ++after) {
    World world = inprocWorld(kRanks, EngineOptions());
    inThreads(kRanks, [&](int rank) {
      Engine& engine = *world.engines[static_cast<size_t>(rank)];
      const auto simulated = std::make_shared<SimulatedDevice>(SimulatedDeviceOptions());
      TensorSpec spec = tensor("w", "ps");
      spec.device = std::make_shared<StarvedDevice>(simulated, rank == 0 ? after : -1);
      const auto handles = engine.declare({spec});
      const auto memory = simulated->memory();
      void* const values = memory->allocate(400);
      Submission submission;
      submission.input = submission.output = values;
      submission.keepAlive = std::shared_ptr<void>(values, [memory](void* freed) { memory->free(freed); });
      const std::string end = endOf(engine, engine.submit(handles.front(), std::move(submission)));
      CHECK(end.empty() || has(end, "of tensor 'w' failed: std::bad_alloc"), end);
      if (rank == 0) ended = end.empty();  // there is no callback of this number
    });
    CHECK(after > 0 || !ended, "a tensor on a device needs no callback");
    shutDown(world);
  }
}

SendRequest request(uint32_t number, std::string& end) {
  SendRequest request;
  request.peer = 1;
  request.tag = {number, 0, 0, 0};
  request.onSent = [&end](const Failure& failure) { end = failure ? failure->what() : "sent"; };
  return request;
}

/// A message for which the transport has no memory ends with a failure. Those behind it go, with and without
/// a schedule, also if a message before it opens its window.
void memoryMissingForAMessageLeavesTheLinkOpen(bool rounds) {
  constexpr size_t kMessages = 6;
  auto owned = std::make_unique<FakeTransport>();
  FakeTransport& fake = *owned;
  StarvedTransport transport(std::move(owned), [](const MessageTag& tag) { return tag.tensor % 2 == 1; });
  CommunicationOptions options;
  options.windowBytes = 1;
  options.bundle.bytes = 0;
  options.bundle.messageBytes = 0;
  options.schedule = {rounds, false, 1};
  const std::vector<std::byte> payload(100);
  std::vector<std::string> ends(kMessages);
  CommunicationQueue queue(transport, options, mustNotThrow);
  for (uint32_t number = 0; number < kMessages; ++number) {
    SendRequest each = request(number, ends[number]);
    each.payload = payload;
    queue.push(0, std::move(each), nullptr);
  }
  while (fake.complete()) continue;
  for (size_t number = 0; number < kMessages; ++number) {
    CHECK(ends[number] == (number % 2 == 1 ? "std::bad_alloc" : "sent"), rounds, number, ends[number]);
  }
}

void workThatThrowsLeavesItsLaneRunning() {
  std::string said;
  bool ran = false;
  ComputeQueue queue(1, [&](const std::exception& error) { said = error.what(); });
  queue.push(0, [](int) { throw std::runtime_error("no memory"); });
  std::mutex mutex;
  std::condition_variable changed;
  queue.push(0, [&](int) {
    const std::lock_guard lock(mutex);
    ran = true;
    changed.notify_one();
  });
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return ran; });
  CHECK(said == "no memory", said);
}

}  // namespace

void stressMemory(Random&) {
  workThatThrowsLeavesItsLaneRunning();
  memoryMissingForAMessageLeavesTheLinkOpen(false);
  memoryMissingForAMessageLeavesTheLinkOpen(true);
  memoryMissingBehindAReceiveEndsTheJob();
  memoryMissingAtAStartEndsThatOperation();
  memoryMissingOnADeviceEndsTheJob();
}

}  // namespace hipress::stress
