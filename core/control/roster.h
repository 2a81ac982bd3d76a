// SPDX-License-Identifier: Apache-2.0
//
// The ranks that are here. The ledger writes the roster. Its tables read it, to see for which ranks a call
// can still wait.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace hipress::control {

struct Member {
  enum class Presence : uint8_t { kAwaited, kHere, kLeft, kLost };

  Presence presence = Presence::kAwaited;
  bool aborted = false;
  bool joined = false;  ///< It has called join(), and other ranks have not.
  std::string origin;   ///< "host h, pid 123"
  std::string end;      ///< For a rank that is gone: a sentence about its end.

  /// The rank sends no more messages, so no rank may wait for it. After an abort it may still be connected.
  bool gone() const { return aborted || presence == Presence::kLeft || presence == Presence::kLost; }
};

using Roster = std::vector<Member>;

/// "rank 3", "ranks 1 and 2", "ranks 1, 2 and 5"; long lists are cut.
std::string rankList(const std::vector<int>& ranks);

/// "60.0 s"
std::string seconds(int64_t milliseconds);

}  // namespace hipress::control
