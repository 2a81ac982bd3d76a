// SPDX-License-Identifier: Apache-2.0
#include "core/casync/send/schedules/round_table.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "core/base/error.h"

namespace hipress {
namespace {

/// A rank this number of slots behind the first rank was idle, and continues at the others' slot.
constexpr uint64_t kSlotsBehind = 2;

static_assert(std::endian::native == std::endian::little && sizeof(WaitingLink) == 16);

const control::ServiceRegistration kRegistered(RoundTable::kService, [](size_t worldSize) {
  return std::make_unique<RoundTable>(worldSize);
});

}  // namespace

std::string RoundTable::questionOf(const std::vector<WaitingLink>& waiting) {
  return {reinterpret_cast<const char*>(waiting.data()), waiting.size() * sizeof(WaitingLink)};
}

uint32_t RoundTable::answer(int rank, std::string_view question) {
  std::vector<WaitingLink> waiting(question.size() / sizeof(WaitingLink));
  std::memcpy(waiting.data(), question.data(), waiting.size() * sizeof(WaitingLink));
  const auto isPeer = [&](const WaitingLink& link) {
    return link.peer != rank && link.peer >= 0 && static_cast<size_t>(link.peer) < worldSize_;
  };
  if (waiting.empty() || question.size() % sizeof(WaitingLink) != 0 ||
      !std::ranges::all_of(waiting, isPeer)) {
    throw invalidArgument("rank " + std::to_string(rank) +
                          " asks for a round with ranks that are not its peers");
  }
  return static_cast<uint32_t>(next(rank, std::move(waiting)).peer);
}

RoundTable::Round RoundTable::next(int rank, std::vector<WaitingLink> waiting) {
  const auto distance = [&](const WaitingLink& link) {
    return (static_cast<size_t>(link.peer) + worldSize_ - static_cast<size_t>(rank)) % worldSize_;
  };
  // Of equally urgent links, the one with the most bytes is first, so that all end together.
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

}  // namespace hipress
