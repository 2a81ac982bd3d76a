// SPDX-License-Identifier: Apache-2.0
#include "tests/core/stress/world/world.h"

#include <string>
#include <thread>
#include <utility>

#include "core/control/local_control.h"
#include "core/transport/ucx/ucx_transport.h"
#include "tests/core/stress/world/check.h"

namespace hipress::stress {

EngineOptions randomOptions(Random& random) {
  EngineOptions options;
  options.computeThreads = random.among({1, 3});
  options.partitionBytes = random.among<size_t>({1 << 12, 1 << 16, 1 << 20});
  CommunicationOptions& communication = options.communication;
  communication.windowBytes = random.among<size_t>({1, 1 << 13, 1 << 20});
  options.inlineElements = random.among<size_t>({0, 16384});
  communication.bundle.bytes = random.among<size_t>({0, 100, 1 << 12, 1 << 16});
  communication.bundle.messageBytes = random.among<size_t>({0, 1 << 10, 1 << 16});
  communication.bundle.linger = std::chrono::microseconds(random.among({0, 200, 5000}));
  communication.bundle.always = random.oneIn(2);
  communication.schedule.roundBytes = random.among<size_t>({1, 1 << 12, 1 << 20});
  communication.schedule.rounds = random.oneIn(3);
  communication.schedule.coordinator = random.oneIn(3);
  options.timeout = Milliseconds(60000);
  options.seed = random.seed();
  return options;
}

World inprocWorld(int size, const EngineOptions& options, Intercept intercept) {
  World world;
  auto transports = makeInprocTransports({size, std::move(intercept), nullptr});
  auto controls = makeLocalControl(size);
  for (size_t rank = 0; rank < transports.size(); ++rank) {
    EngineOptions own = options;
    own.neighbours = neighboursAmongThreads(static_cast<int>(rank), options.hosts);
    world.engines.push_back(std::make_shared<Engine>(std::shared_ptr<ControlPlane>(std::move(controls[rank])),
                                                     std::move(transports[rank]), std::move(own)));
  }
  return world;
}

World ucxWorld(int size, const EngineOptions& options) {
  World world;
  RendezvousOptions rendezvous;
  rendezvous.worldSize = size;
  rendezvous.token = "stress";
  world.server = std::make_unique<ControlServer>(rendezvous);
  rendezvous.port = world.server->port();
  world.engines.resize(static_cast<size_t>(size));
  inThreads(size, [&](int rank) {
    RendezvousOptions own = rendezvous;
    own.rank = rank;
    UcxOptions ucx;
    std::shared_ptr<ControlPlane> control = connectControl(own, &ucx.localAddress);
    auto transport = makeUcxTransport(*control, ucx);
    EngineOptions engine = options;
    engine.neighbours = neighboursAmongThreads(rank, options.hosts);
    world.engines[static_cast<size_t>(rank)] =
        std::make_shared<Engine>(std::move(control), std::move(transport), std::move(engine));
  });
  return world;
}

void inThreads(int count, const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  for (int index = 0; index < count; ++index) {
    threads.emplace_back([&body, index] {
      try {
        body(index);
      } catch (const std::exception& error) {
        CHECK(false, "thread", index, "threw:", error.what());
      }
    });
  }
  for (auto& thread : threads) thread.join();
}

void shutDown(World& world) {
  inThreads(world.size(),
            [&](int rank) { world.engines[static_cast<size_t>(rank)]->shutdown(Milliseconds(20000)); });
}

}  // namespace hipress::stress
