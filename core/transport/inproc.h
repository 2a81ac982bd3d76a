// SPDX-License-Identifier: Apache-2.0
//
// Ranks as threads of one process: for tests that are fast and can be debugged. Each rank has its own
// progress thread, so that the threading seen by the runtime is that of a real network.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "core/transport/transport.h"

namespace hipress {

/// A message on its way, which a test may change.
struct InprocMessage {
  int source = 0;
  int destination = 0;
  MessageTag tag;
  MessageHeader header{};
  std::vector<std::byte> payload;
};

struct InprocOptions {
  int worldSize = 1;
  /// Called on the sender's progress thread for every message, before it is put into a bundle with others;
  /// may change it; false drops it. Used to inject faults.
  std::function<bool(InprocMessage&)> intercept;
  /// The same for every bundle as it travels: its bytes, and a header of its own.
  std::function<bool(InprocMessage&)> interceptBundle;
};

/// One transport per rank, connected with each other.
std::vector<std::unique_ptr<Transport>> makeInprocTransports(const InprocOptions& options);

}  // namespace hipress
