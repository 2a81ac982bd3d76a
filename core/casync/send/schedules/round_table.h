// SPDX-License-Identifier: Apache-2.0
//
// The coordinator's table at rank 0: which rank sends to which in each slot. In a slot a rank sends to one
// rank and receives from one. While a rank sends in a slot, it asks for its next one and names its links with
// waiting messages. Rank 0 answers at once with the most urgent of these links whose receiver is free in the
// slot. So all ranks have the same slots although they are not in step, and no rank waits for a rank that
// does not ask.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/control/service.h"

namespace hipress {

/// A link for which large messages of a rank wait.
struct WaitingLink {
  int32_t peer = 0;
  int32_t priority = 0;  ///< The priority of its most urgent message.
  uint64_t bytes = 0;
};

class RoundTable final : public control::Service {
 public:
  static constexpr const char* kService = "rounds";

  struct Round {
    uint64_t slot = 0;
    int peer = 0;
  };

  explicit RoundTable(size_t worldSize) : worldSize_(worldSize), next_(worldSize) {}

  /// The text of a rank's question; the answer is the peer.
  static std::string questionOf(const std::vector<WaitingLink>& waiting);
  uint32_t answer(int rank, std::string_view question) override;

  /// `waiting` has at least one link. If all receivers are taken in the slot, the rank gets a later slot.
  Round next(int rank, std::vector<WaitingLink> waiting);

 private:
  std::vector<bool>& receiversIn(uint64_t slot);

  const size_t worldSize_;
  std::vector<uint64_t> next_;                   // by rank
  std::map<uint64_t, std::vector<bool>> taken_;  // by slot, for the last slots only: the receivers
};

}  // namespace hipress
