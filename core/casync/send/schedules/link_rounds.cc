// SPDX-License-Identifier: Apache-2.0
#include "core/casync/send/schedules/link_rounds.h"

#include <algorithm>
#include <utility>

namespace hipress {
namespace {

/// The messages in flight on a link without progress count for this number of look() calls.
constexpr int kQuietLooks = 2;
/// Messages in flight at a time, of any size: one is being sent, and the next is on its way to the receiver.
constexpr size_t kMessagesInFlight = 2;

}  // namespace

LinkRounds::LinkRounds(int rank, const std::vector<bool>& takesPart, size_t roundBytes, bool planned)
    : roundBytes_(roundBytes), countsUnplanned_(planned), planned_(planned), indexOf_(takesPart.size(), -1) {
  for (size_t distance = 1; distance < takesPart.size(); ++distance) {
    const size_t peer = (static_cast<size_t>(rank) + distance) % takesPart.size();
    if (!takesPart[peer]) continue;
    indexOf_[peer] = static_cast<int>(links_.size());
    links_.emplace_back().peer = static_cast<int>(peer);
  }
  if (!links_.empty()) current_ = links_.size() - 1;  // the first link has the first turn
}

void LinkRounds::push(QueuedMessage&& message) {
  Link& link = linkOf(message);
  const int priority = message.priority;
  const size_t bytes = message.bytes();
  link.heap.push({priority, pushed_++, {bytes, messages_.put(std::move(message))}});
  link.waitingBytes += bytes;
  ++waiting_;
}

std::optional<QueuedMessage> LinkRounds::next() {
  if (waiting_ == 0 || !hasRoom()) return std::nullopt;
  if (roundIsOver() && !beginRound()) return std::nullopt;
  return depart(links_[current_]);
}

bool LinkRounds::hasRoom() const {
  return inFlight_.messages < kMessagesInFlight || inFlight_.bytes < roundBytes_;
}

bool LinkRounds::roundIsOver() const {
  const Link& link = links_[current_];
  if (!inRound_ || link.heap.empty() || gone_ >= roundBytes_) return true;
  return gone_ > 0 && moreUrgentElsewhere(link);
}

bool LinkRounds::moreUrgentElsewhere(const Link& link) const {
  return std::any_of(links_.begin(), links_.end(), [&link](const Link& other) {
    return !other.heap.empty() && other.heap.top().priority > link.heap.top().priority;
  });
}

bool LinkRounds::beginRound() {
  inRound_ = false;
  const bool hasPlan = plan_ && !links_[*plan_].heap.empty();
  if (planned_ && !hasPlan && !alone_) {
    plan_.reset();  // the planned link's messages have gone, so a new plan is needed
    return false;
  }
  current_ = planned_ && hasPlan ? *plan_ : *nextInTurn();
  if (countsUnplanned_ && plan_ != current_) ++counters_.unplanned;
  plan_.reset();
  alone_ = false;
  inRound_ = true;
  gone_ = 0;
  ++counters_.begun;
  return true;
}

/// Returns the next link with a waiting message, if possible one with no message in flight. At least one
/// message must wait.
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

QueuedMessage LinkRounds::depart(Link& link) {
  const auto [bytes, slot] = link.heap.top().value;
  link.heap.pop();
  link.waitingBytes -= bytes;
  --waiting_;
  if (link.inFlight.messages == 0) link.quietLooks = 0;
  ++link.flying;
  for (InFlight* each : {&link.inFlight, &inFlight_}) {
    each->bytes += bytes;
    ++each->messages;
  }
  gone_ += bytes;
  QueuedMessage message = messages_.take(slot);
  message.mark = link.window;
  return message;
}

void LinkRounds::sent(const QueuedMessage& message) {
  Link& link = linkOf(message);
  --link.flying;
  link.quietLooks = 0;
  if (message.mark != link.window) return;
  for (InFlight* each : {&link.inFlight, &inFlight_}) {
    each->bytes -= message.bytes();
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
  if (peer < 0 || static_cast<size_t>(peer) >= indexOf_.size() || !has(peer)) return beginAlone();
  plan_ = static_cast<size_t>(indexOf_[static_cast<size_t>(peer)]);
}

}  // namespace hipress
