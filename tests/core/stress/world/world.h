// SPDX-License-Identifier: Apache-2.0
//
// Ranks as threads, with their engines.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "core/casync/run/engine.h"
#include "core/control/tcp/tcp_control.h"
#include "core/transport/inproc.h"
#include "tests/core/stress/world/random.h"

namespace hipress::stress {

struct World {
  std::unique_ptr<ControlServer> server;  // outlives the engines
  std::vector<std::shared_ptr<Engine>> engines;

  int size() const { return static_cast<int>(engines.size()); }
};

using Intercept = std::function<bool(InprocMessage&)>;

/// Engine options under which every queue, window and inline path is used.
EngineOptions randomOptions(Random& random);

World inprocWorld(int size, const EngineOptions& options, Intercept intercept = nullptr);
World ucxWorld(int size, const EngineOptions& options);

/// Runs the body in `count` threads at once and waits for all. An exception that leaves it ends the program.
void inThreads(int count, const std::function<void(int)>& body);

/// All ranks say goodbye together.
void shutDown(World& world);

}  // namespace hipress::stress
