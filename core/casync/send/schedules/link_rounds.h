// SPDX-License-Identifier: Apache-2.0
//
// Link rounds: at any time a rank's large messages use one link. If every rank sent to all others at
// once, all other ranks would send to each receiver at the same time, and each message would take as
// long as all of them. In rounds a rank sends to one rank and receives from one: in round t, rank r
// sends to rank r + 1 + (t mod (N−1)), counted modulo N. Each rank computes this alone, or a planner
// chooses the link.
//
// Ranks are not in step, and rounds must not cost time:
// - A round skips links without waiting messages: a rank that has messages sends.
// - A round has a fixed number of bytes, or one larger message. The next round begins before the last
//   one is out: two messages, or the bytes of one round, are in flight.
// - The next round takes a link with no message in flight, if there is one. So a receiver that does
//   not take its messages yet delays one round, and not the other links.
// - A large message is out only when its receiver has asked for it, and the receiver may ask only
//   after it has got another message. So the messages in flight on a link without progress stop
//   counting after some calls of look(). As long as messages wait and the caller calls look(),
//   messages go.
//
// Priorities: each link has its own order. A message of higher priority on another link ends the
// current round after the message in flight, and also each round before its own link's turn. So at
// most one message of each other link goes before it. Without rounds the same messages would share the
// uplink with it. An immediate round for its link would be faster for this message. But all ranks
// agree on the most urgent message, so they would all send to its receiver at once.
//
// Small messages have no rounds. Neither have links through shared memory, which do not share the
// uplink.
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
  /// `takesPart`: by peer, whether its link has rounds. `planned`: each round waits for plan().
  LinkRounds(int rank, const std::vector<bool>& takesPart, size_t roundBytes, bool planned);

  bool has(int peer) const { return indexOf_[static_cast<size_t>(peer)] >= 0; }

  void push(QueuedMessage&& message);

  /// Returns the next message, which is in flight from now on.
  std::optional<QueuedMessage> next();

  /// Reports that a message of next() is out.
  void sent(const QueuedMessage& message);

  /// The caller calls this at intervals. Returns whether next() may now return a message that had to wait.
  /// `*waits`: messages wait, so the caller must call again.
  bool look(bool* waits);

  /// For planned rounds: whether the next round has no plan yet, the facts for the planner, and the plan.
  /// beginAlone() begins one round without a plan, goOnAlone() all further rounds.
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
    uint64_t window = 0;  // number of the open window
    InFlight inFlight;    // of this window
    int quietLooks = 0;   // calls of look() in a row without progress
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
  std::vector<int> indexOf_;  // by peer: index in links_; -1: has no rounds
  Slots<QueuedMessage> messages_;
  uint64_t pushed_ = 0;
  size_t waiting_ = 0;  // messages
  InFlight inFlight_;   // sum over the open windows
  size_t current_ = 0;  // the round's link
  bool inRound_ = false;
  size_t gone_ = 0;     // bytes sent in this round
  bool alone_ = false;  // the next round begins without a plan
  std::optional<size_t> plan_;
  ScheduleCounters counters_;
};

}  // namespace hipress
