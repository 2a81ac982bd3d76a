// SPDX-License-Identifier: Apache-2.0
#include "core/casync/link_rounds.h"

#include <algorithm>
#include <utility>

namespace hipress {
namespace {

/// What is in flight to a link on which nothing moved is waited for during so many looks.
constexpr int kQuietLooks = 2;
/// In flight at a time, whatever their size: the next is on its way to the receiver while one is sent.
constexpr size_t kMessagesInFlight = 2;

size_t bytesOf(const LinkQueue::Item& item) {
  return item.request.payload.size() + kMessageHeaderBytes;
}

}  // namespace

LinkRounds::LinkRounds(int rank, std::vector<bool> takesPart, const RoundOptions& options)
    : options_(options),
      indexOf_(takesPart.size(), -1),
      coordinated_(options.coordinator == Coordinator::kRank0) {
  if (!options.used()) return;
  for (size_t distance = 1; distance < takesPart.size(); ++distance) {
    const size_t peer = (static_cast<size_t>(rank) + distance) % takesPart.size();
    if (!takesPart[peer]) continue;
    indexOf_[peer] = static_cast<int>(links_.size());
    Link& link = links_.emplace_back();
    link.peer = static_cast<int>(peer);
  }
  if (!links_.empty()) current_ = links_.size() - 1;  // so that the first is the first in turn
}

void LinkRounds::push(int priority, LinkQueue::Item&& item) {
  Link& link = links_[static_cast<size_t>(indexOf_[static_cast<size_t>(item.request.peer)])];
  Waiting waiting{priority, sequence_++, bytesOf(item), slots_.size()};
  if (freeSlots_.empty()) {
    slots_.push_back(std::move(item));
  } else {
    waiting.slot = freeSlots_.back();
    freeSlots_.pop_back();
    slots_[waiting.slot] = std::move(item);
  }
  link.heap.push(waiting);
  link.waitingBytes += waiting.bytes;
  ++waiting_;
}

std::optional<LinkRounds::Departure> LinkRounds::next() {
  if (waiting_ == 0 || !hasRoom()) return std::nullopt;
  if (roundIsOver() && !beginRound()) return std::nullopt;
  return depart(links_[current_]);
}

bool LinkRounds::hasRoom() const {
  return inFlight_.messages < kMessagesInFlight || inFlight_.bytes < options_.bytes;
}

bool LinkRounds::roundIsOver() const {
  const Link& link = links_[current_];
  if (!inRound_ || link.heap.empty() || roundBytes_ >= options_.bytes) return true;
  return roundBytes_ > 0 && moreUrgentElsewhere(link);
}

bool LinkRounds::moreUrgentElsewhere(const Link& link) const {
  return std::any_of(links_.begin(), links_.end(), [&link](const Link& other) {
    return !other.heap.empty() && other.heap.top().priority > link.heap.top().priority;
  });
}

bool LinkRounds::beginRound() {
  inRound_ = false;
  if (!coordinated_) {
    current_ = *nextInTurn();
  } else if (planned_ && !links_[*planned_].heap.empty()) {
    current_ = *planned_;
  } else if (alone_) {
    current_ = *nextInTurn();
  } else {
    planned_.reset();  // what it was for has gone: it is asked again
    return false;
  }
  if (options_.coordinator != Coordinator::kNone && planned_ != current_) ++counters_.unplanned;
  planned_.reset();
  alone_ = false;
  inRound_ = true;
  roundBytes_ = 0;
  ++counters_.begun;
  return true;
}

/// The next link that something waits for, if possible one that has nothing in flight. Something waits.
std::optional<size_t> LinkRounds::nextInTurn() const {
  std::optional<size_t> found;
  for (size_t step = 1; step <= links_.size(); ++step) {
    const size_t index = (current_ + step) % links_.size();
    const Link& link = links_[index];
    if (link.heap.empty()) continue;
    if (link.flying == 0) return index;
    if (!found) found = index;
  }
  return found;
}

LinkRounds::Departure LinkRounds::depart(Link& link) {
  const Waiting first = link.heap.top();
  link.heap.pop();
  link.waitingBytes -= first.bytes;
  --waiting_;
  if (link.inFlight.messages == 0) link.quietLooks = 0;
  ++link.flying;
  for (InFlight* each : {&link.inFlight, &inFlight_}) {
    each->bytes += first.bytes;
    ++each->messages;
  }
  roundBytes_ += first.bytes;
  freeSlots_.push_back(first.slot);
  Departure departure{first.priority, std::move(slots_[first.slot])};
  departure.item.window = link.window;
  return departure;
}

void LinkRounds::sent(const LinkQueue::Item& item) {
  Link& link = links_[static_cast<size_t>(indexOf_[static_cast<size_t>(item.request.peer)])];
  --link.flying;
  link.quietLooks = 0;
  if (item.window != link.window) return;
  for (InFlight* each : {&link.inFlight, &inFlight_}) {
    each->bytes -= bytesOf(item);
    --each->messages;
  }
}

bool LinkRounds::look(bool* waits) {
  *waits = waiting_ > 0;
  bool opened = false;
  for (Link& link : links_) {
    if (!*waits || link.inFlight.messages == 0) {
      link.quietLooks = 0;
    } else if (++link.quietLooks > kQuietLooks) {
      link.quietLooks = 0;
      inFlight_.bytes -= link.inFlight.bytes;
      inFlight_.messages -= link.inFlight.messages;
      link.inFlight = {};
      ++link.window;
      opened = true;
    }
  }
  return opened;
}

std::vector<WaitingLink> LinkRounds::waitingLinks() const {
  std::vector<WaitingLink> result;
  for (const Link& link : links_) {
    if (!link.heap.empty()) result.push_back({link.peer, link.heap.top().priority, link.waitingBytes});
  }
  return result;
}

void LinkRounds::plan(int peer) {
  if (peer < 0 || static_cast<size_t>(peer) >= indexOf_.size() || !has(peer)) return goAlone();
  planned_ = static_cast<size_t>(indexOf_[static_cast<size_t>(peer)]);
}

}  // namespace hipress
