// SPDX-License-Identifier: Apache-2.0
//
// The coordinator's memory, at rank 0: who sends to whom in which slot. In a slot a rank sends to one rank
// and receives from one. A rank asks for its next slot while it sends in the slot before, and says which of
// its links messages wait for. Rank 0 answers at once with the most urgent of these links whose receiver no
// other rank was given in that slot. So slots are the same for all ranks, though ranks are not in step, and
// no rank waits for one that does not ask.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/control/service.h"

namespace hipress {

/// A link that a rank's large messages wait for.
struct WaitingLink {
  int32_t peer = 0;
  int32_t priority = 0;  ///< Of the most urgent of them.
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

  /// The text in which a rank asks; the answer is the peer.
  static std::string questionOf(const std::vector<WaitingLink>& waiting);
  uint32_t answer(int rank, std::string_view question) override;

  /// `waiting` has at least one link. If the receivers of all of them are taken, a later slot is given.
  Round next(int rank, std::vector<WaitingLink> waiting);

 private:
  std::vector<bool>& receiversIn(uint64_t slot);

  const size_t worldSize_;
  std::vector<uint64_t> next_;                   // by rank
  std::map<uint64_t, std::vector<bool>> taken_;  // receivers, by slot; the last ones only
};

}  // namespace hipress
