// SPDX-License-Identifier: Apache-2.0
//
// Ranks as threads of one process, for tests that are fast and easy to debug. Each rank has its own progress
// thread, so the runtime sees the same threads as with a real network.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "core/transport/transport.h"

namespace hipress {

/// A message in flight, which a test may change.
struct InprocMessage {
  int source = 0;
  int destination = 0;
  MessageTag tag;
  MessageHeader header{};
  std::vector<std::byte> payload;
};

struct InprocOptions {
  int worldSize = 1;
  /// Called on the sender's progress thread for every message, before the message enters a bundle. It may
  /// change the message; false drops it. Tests inject faults with it.
  std::function<bool(InprocMessage&)> intercept;
  /// The same for every bundle in flight: the bytes of the bundle and the bundle's header.
  std::function<bool(InprocMessage&)> interceptBundle;
};

/// Makes one transport per rank, all connected with each other.
std::vector<std::unique_ptr<Transport>> makeInprocTransports(const InprocOptions& options);

}  // namespace hipress
