// SPDX-License-Identifier: Apache-2.0
//
// The coordinator's memory: who sends to whom in which slot. In a slot a rank sends to one rank and receives
// from one. A rank asks for its next slot while it sends in the one before, and is answered at once, from
// what it says waits: its most urgent link of which no other rank was given the receiver in that slot. So
// slots are the same for all ranks, though ranks are not in step, and nobody waits for a rank that does not
// ask.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "core/control/request.h"

namespace hipress::control {

class RoundTable {
 public:
  explicit RoundTable(size_t worldSize) : worldSize_(worldSize), next_(worldSize) {}

  struct Round {
    uint64_t slot = 0;
    int peer = 0;
  };

  /// `waiting` has at least one link. If the receivers of all of them are taken, a later slot is given.
  Round next(int rank, std::vector<WaitingLink> waiting);

 private:
  std::vector<bool>& receiversIn(uint64_t slot);

  const size_t worldSize_;
  std::vector<uint64_t> next_;                   // by rank
  std::map<uint64_t, std::vector<bool>> taken_;  // receivers, by slot; the last ones only
};

}  // namespace hipress::control
