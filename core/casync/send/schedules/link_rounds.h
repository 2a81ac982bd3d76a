// SPDX-License-Identifier: Apache-2.0
//
// Rounds: at any time a rank's large messages use one link. If every rank sends to all others at once, as
// many senders meet at each receiver as there are ranks, and each message takes as long as all of them
// together. In rounds a rank sends to one rank and receives from one: in round t, rank r sends to r + 1 + t
// mod (N−1). Every rank computes that alone, or a planner says for which link the next round is.
//
// Ranks are not in step, and rounds must not cost time:
// - A link that no message waits for is passed over: a rank that has messages sends.
// - A round has a number of bytes, or one message that is larger. The next round begins before the last is
// out: two
//   messages, or a round's bytes, are in flight.
// - The next round's link is one with nothing in flight, if there is one: a receiver that does not take its
// messages
//   yet holds up one round, and not the other links.
// - A large message is out only when its receiver has asked for it, and the receiver may ask only after it
// got another
//   message. So the messages in flight on a link that does not move stop counting after some calls of look():
//   as long as messages wait and look() is called, messages go.
//
// Priorities: each link has its own order. A message of higher priority on another link ends the round after
// the message that is going, and each round on the way to it; so at most one message of each other link goes
// before it. Without rounds the same messages would share the uplink with it. Jumping to its link at once
// would be sooner for this message, but all ranks agree on the most urgent one, and would meet at its
// receiver.
//
// Small messages take no part, nor do links through shared memory, which share no uplink.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/base/priority_heap.h"
#include "core/base/slots.h"
#include "core/casync/send/schedules/round_table.h"
#include "core/casync/send/schedules/schedule.h"

namespace hipress {

/// Not thread-safe.
class LinkRounds {
 public:
  /// `takesPart`, by peer: the links that are used in rounds. `planned`: each round waits for plan().
  LinkRounds(int rank, const std::vector<bool>& takesPart, size_t roundBytes, bool planned);

  bool has(int peer) const { return indexOf_[static_cast<size_t>(peer)] >= 0; }

  void push(QueuedMessage&& message);

  /// The message that goes now; it is in flight from here on.
  std::optional<QueuedMessage> next();

  /// A message that next() gave is out.
  void sent(const QueuedMessage& message);

  /// To be called at intervals. True if next() may give a message because of it. `*waits`: messages wait, and
  /// the function is to be called again.
  bool look(bool* waits);

  /// If rounds are planned: whether the next round has no plan yet, what the planner has to know, and its
  /// answer. beginAlone() begins one round without a plan, goOnAlone() all rounds that follow.
  bool wantsPlan() const { return planned_ && !plan_ && waiting_ > 0; }
  std::vector<WaitingLink> waitingLinks() const;
  void plan(int peer);
  void beginAlone() { alone_ = true; }
  void goOnAlone() { planned_ = false; }

  bool empty() const { return waiting_ == 0; }
  const ScheduleCounters& counters() const { return counters_; }

 private:
  struct Waiting {
    size_t bytes = 0;
    size_t slot = 0;
  };
  struct InFlight {
    size_t bytes = 0;
    size_t messages = 0;
  };
  struct Link {
    int peer = 0;
    PriorityHeap<Waiting> heap;
    size_t waitingBytes = 0;
    size_t flying = 0;    // messages of this and earlier windows
    uint64_t window = 0;  // number of the window that is open
    InFlight inFlight;    // of this window
    int quietLooks = 0;   // calls of look() in a row in which nothing had moved
  };

  bool hasRoom() const;
  bool roundIsOver() const;
  bool moreUrgentElsewhere(const Link& link) const;
  bool beginRound();
  std::optional<size_t> nextInTurn() const;
  QueuedMessage depart(Link& link);

  Link& linkOf(const QueuedMessage& message) {
    return links_[static_cast<size_t>(indexOf_[static_cast<size_t>(message.request.peer)])];
  }

  const size_t roundBytes_;
  const bool countsUnplanned_;
  bool planned_;
  std::vector<Link> links_;   // the link to rank + 1 is the first
  std::vector<int> indexOf_;  // in links_, by peer; -1: takes no part
  Slots<QueuedMessage> messages_;
  uint64_t pushed_ = 0;
  size_t waiting_ = 0;  // messages
  InFlight inFlight_;   // of the windows that are open, all together
  size_t current_ = 0;  // the round's link
  bool inRound_ = false;
  size_t gone_ = 0;     // bytes, in this round
  bool alone_ = false;  // the next round begins without a plan
  std::optional<size_t> plan_;
  ScheduleCounters counters_;
};

}  // namespace hipress
