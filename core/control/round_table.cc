// SPDX-License-Identifier: Apache-2.0
#include "core/control/round_table.h"

#include <algorithm>
#include <utility>

namespace hipress::control {
namespace {

/// A rank that is so many slots behind the first was idle, and goes on where the others are.
constexpr uint64_t kSlotsBehind = 2;

}  // namespace

RoundTable::Round RoundTable::next(int rank, std::vector<WaitingLink> waiting) {
  const auto distance = [&](const WaitingLink& link) {
    return (static_cast<size_t>(link.peer) + worldSize_ - static_cast<size_t>(rank)) % worldSize_;
  };
  // The longest queue first, among equally urgent ones: so that all end together.
  std::sort(waiting.begin(), waiting.end(), [&](const WaitingLink& a, const WaitingLink& b) {
    if (a.priority != b.priority) return a.priority > b.priority;
    return a.bytes != b.bytes ? a.bytes > b.bytes : distance(a) < distance(b);
  });
  uint64_t slot = next_[static_cast<size_t>(rank)];
  if (!taken_.empty()) {
    const uint64_t last = taken_.rbegin()->first;
    if (last > slot + kSlotsBehind) slot = last - kSlotsBehind;
    taken_.erase(taken_.begin(), taken_.lower_bound(last > kSlotsBehind ? last - kSlotsBehind : 0));
  }
  for (;; ++slot) {
    std::vector<bool>& taken = receiversIn(slot);
    for (const WaitingLink& link : waiting) {
      if (taken[static_cast<size_t>(link.peer)]) continue;
      taken[static_cast<size_t>(link.peer)] = true;
      next_[static_cast<size_t>(rank)] = slot + 1;
      return {slot, link.peer};
    }
  }
}

std::vector<bool>& RoundTable::receiversIn(uint64_t slot) {
  std::vector<bool>& receivers = taken_[slot];
  receivers.resize(worldSize_);
  return receivers;
}

}  // namespace hipress::control
