// SPDX-License-Identifier: Apache-2.0
//
// The coordinator's table at rank 0: which rank sends to which in each slot. In a slot a rank sends to one
// rank and receives from one. While a rank sends in a slot, it asks for its next one and names its links with
// waiting messages. Rank 0 answers at once with the most urgent of these links whose receiver is free in the
// slot. So all ranks have the same slots although they are not in step, and no rank waits for a rank that
// does not ask.
#pragma once

#include <algorithm>
#include <bit>
#include <cstring>
#include <set>
#include <tuple>
#include <vector>

#include "core/base/error.h"
#include "core/control/service.h"

namespace hipress {

/// A link for which large messages of a rank wait.
struct WaitingLink {
  int32_t peer = 0;
  int32_t priority = 0;  ///< The priority of its most urgent message.
  uint64_t bytes = 0;
};
static_assert(std::endian::native == std::endian::little && sizeof(WaitingLink) == 16);

class RoundTable final : public control::Service {
 public:
  static constexpr const char* kService = "rounds";
  /// A rank this number of slots behind the first rank was idle, and continues at the others' slot.
  static constexpr uint64_t kSlotsBehind = 2;

  struct Round {
    uint64_t slot = 0;
    int peer = 0;
  };

  explicit RoundTable(size_t worldSize) : next_(worldSize) {}

  /// The text of a rank's question; the answer is the peer.
  static std::string questionOf(const std::vector<WaitingLink>& waiting) {
    return {reinterpret_cast<const char*>(waiting.data()), waiting.size() * sizeof(WaitingLink)};
  }

  uint32_t answer(int rank, std::string_view question) override {
    std::vector<WaitingLink> waiting(question.size() / sizeof(WaitingLink));
    std::memcpy(waiting.data(), question.data(), waiting.size() * sizeof(WaitingLink));
    const auto isPeer = [&](const WaitingLink& link) {
      return link.peer != rank && static_cast<size_t>(link.peer) < next_.size();
    };
    if (waiting.empty() || question.size() % sizeof(WaitingLink) != 0 ||
        !std::ranges::all_of(waiting, isPeer)) {
      throw invalidArgument("rank " + std::to_string(rank) +
                            " asks for a round with ranks that are no peers");
    }
    return static_cast<uint32_t>(next(rank, std::move(waiting)).peer);
  }

  /// `waiting` has at least one link. If all receivers are taken in the slot, the rank gets a later slot.
  Round next(int rank, std::vector<WaitingLink> waiting) {
    // Of equally urgent links, the one with the most bytes is first, so that all end together.
    std::ranges::sort(waiting, {}, [&](const WaitingLink& link) {
      const auto distance = static_cast<size_t>(link.peer - rank) + (link.peer < rank ? next_.size() : 0);
      return std::tuple(~link.priority, ~link.bytes, distance);  // ~ turns the order round
    });
    uint64_t& slot = next_[static_cast<size_t>(rank)];
    const uint64_t last = taken_.empty() ? 0 : taken_.rbegin()->first;
    const uint64_t earliest = last - std::min(last, kSlotsBehind);
    slot = std::max(slot, earliest);
    taken_.erase(taken_.begin(), taken_.lower_bound({earliest, 0}));
    for (;; ++slot) {
      for (const WaitingLink& link : waiting) {
        if (taken_.emplace(slot, link.peer).second) return {slot++, link.peer};
      }
    }
  }

 private:
  std::vector<uint64_t> next_;                // slots by rank
  std::set<std::pair<uint64_t, int>> taken_;  // slots and receivers, for the last slots only
};

}  // namespace hipress
