// SPDX-License-Identifier: Apache-2.0
//
// Link rounds: at any time a rank's large messages use one link. If every rank sent to all others at once,
// each receiver would have N−1 senders. In round t, rank r sends to rank r + 1 + (t mod (N−1)), counted
// modulo N. Each rank computes this alone, or a planner chooses the link.
//
// Ranks are not in step, and rounds must not cost time:
// - A round takes the next link with waiting messages, if possible one with no message in flight. So a
//   receiver that does not take its messages yet delays one round.
// - The next round begins before the last one is out: two messages, or the bytes of one round, are in
//   flight.
// - A large message is out only when its receiver has asked for it, and the receiver may ask only after it
//   has got another message. So messages in flight without progress stop counting after some calls of
//   look().
// - A message of higher priority on another link ends a round after the message in flight. It gets no round
//   at once: all ranks agree on the most urgent message, so they would all send to its receiver.
#pragma once

#include <functional>
#include <map>
#include <optional>

#include "core/casync/send/queued_message.h"
#include "core/casync/send/schedules/round_table.h"

namespace hipress {

struct ScheduleCounters {
  uint64_t begun = 0;      ///< Rounds so far.
  uint64_t unplanned = 0;  ///< Rounds that began without the coordinator's answer, which was late or missing.
};

/// Not thread-safe.
class LinkRounds {
 public:
  /// `takesPart`: by peer, whether its link has rounds. `planned`: each round waits for plan().
  LinkRounds(int rank, const std::vector<bool>& takesPart, size_t roundBytes, bool planned)
      : takesPart_(takesPart),
        roundBytes_(roundBytes),
        planned_(planned),
        links_(takesPart.size()),
        current_(static_cast<size_t>(rank)),
        gone_(roundBytes) {}

  bool has(int peer) const { return takesPart_[static_cast<size_t>(peer)]; }

  void push(QueuedMessage&& message) {
    const int priority = message.priority;
    linkOf(message).waiting.emplace(priority, std::move(message));
    ++waiting_;
  }

  /// Returns the next message, which is in flight from now on.
  std::optional<QueuedMessage> next() {
    const bool hasRoom = messagesInFlight_ < kMessagesInFlight || bytesInFlight_ < roundBytes_;
    if (empty() || !hasRoom || (roundIsOver() && !beginRound())) return std::nullopt;
    Link& link = links_[current_];
    QueuedMessage message = std::move(link.waiting.begin()->second);
    link.waiting.erase(link.waiting.begin());
    --waiting_;
    ++link.flying;
    ++messagesInFlight_;
    bytesInFlight_ += message.bytes();
    gone_ += message.bytes();
    message.mark = window_;
    return message;
  }

  /// Reports that a message of next() is out.
  void sent(const QueuedMessage& message) {
    --linkOf(message).flying;
    quietLooks_ = 0;
    if (message.mark != window_) return;
    --messagesInFlight_;
    bytesInFlight_ -= message.bytes();
  }

  /// The caller calls this at intervals while messages wait.
  void look() {
    if (empty() || messagesInFlight_ == 0 || ++quietLooks_ <= kQuietLooks) return;
    messagesInFlight_ = bytesInFlight_ = quietLooks_ = 0;
    ++window_;
  }

  /// For planned rounds: whether the next round has no plan yet, the facts for the planner, and the plan.
  /// Without a peer the next round begins by itself; after goOnAlone() all further rounds do.
  bool wantsPlan() const { return planned_ && !plan_ && !alone_ && !empty(); }
  void goOnAlone() { planned_ = false; }
  void plan(std::optional<uint32_t> peer) {
    if (peer && *peer < takesPart_.size() && takesPart_[*peer]) plan_ = *peer;
    alone_ = !plan_;
  }
  std::vector<WaitingLink> waitingLinks() const {
    std::vector<WaitingLink> result;
    for (const Link& link : links_) {
      if (link.waiting.empty()) continue;
      result.push_back({static_cast<int32_t>(&link - links_.data()), link.waiting.begin()->first, 0});
      for (const auto& [priority, message] : link.waiting) result.back().bytes += message.bytes();
    }
    return result;
  }

  bool empty() const { return waiting_ == 0; }
  const ScheduleCounters& counters() const { return counters_; }

 private:
  /// Messages in flight without progress count for this number of look() calls.
  static constexpr size_t kQuietLooks = 2;
  /// Messages in flight at a time, of any size: one is being sent, and the next waits for its receiver.
  static constexpr size_t kMessagesInFlight = 2;

  struct Link {
    std::multimap<int, QueuedMessage, std::greater<>> waiting;  // by priority; equal ones as they came
    size_t flying = 0;                                          // messages of this and earlier windows
  };

  Link& linkOf(const QueuedMessage& message) { return links_[static_cast<size_t>(message.request.peer)]; }

  bool roundIsOver() const {
    const auto& waiting = links_[current_].waiting;
    if (waiting.empty() || gone_ >= roundBytes_) return true;
    return gone_ > 0 && std::ranges::any_of(links_, [&](const Link& other) {
             return !other.waiting.empty() && other.waiting.begin()->first > waiting.begin()->first;
           });
  }

  /// At least one message waits. Returns false if the next round has to wait for a plan.
  bool beginRound() {
    gone_ = roundBytes_;  // a later message of this link does not go on with the last round
    if (plan_ && links_[*plan_].waiting.empty()) plan_.reset();  // its messages have gone
    if (planned_ && !plan_ && !alone_) return false;
    if (planned_ && !plan_) ++counters_.unplanned;
    const auto turn = [&](const Link& link) {
      const size_t count = links_.size();
      const size_t distance = (static_cast<size_t>(&link - links_.data()) + count - current_ - 1) % count;
      return std::tuple(link.waiting.empty(), link.flying > 0, distance);
    };
    const auto inTurn = std::ranges::min_element(links_, {}, turn) - links_.begin();
    current_ = plan_.value_or(static_cast<size_t>(inTurn));
    plan_.reset();
    alone_ = false;
    gone_ = 0;
    ++counters_.begun;
    return true;
  }

  std::vector<bool> takesPart_;
  const size_t roundBytes_;
  bool planned_;
  std::vector<Link> links_;  // by peer
  size_t waiting_ = 0;       // messages
  uint64_t window_ = 0;      // number of the window, which has the messages that count as in flight
  size_t messagesInFlight_ = 0;
  size_t bytesInFlight_ = 0;
  size_t quietLooks_ = 0;  // calls of look() in a row without progress
  size_t current_;         // the round's peer
  size_t gone_;            // bytes sent in this round; roundBytes_: it is over
  std::optional<size_t> plan_;
  bool alone_ = false;  // the next round begins without a plan
  ScheduleCounters counters_;
};

}  // namespace hipress
