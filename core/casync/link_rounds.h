// SPDX-License-Identifier: Apache-2.0
//
// Which link a rank's large messages use now. If every rank sends to all others at once, as many senders meet
// at each receiver as there are ranks, and each message takes as long as all of them together. In rounds a
// rank sends to one rank and receives from one: in round t, rank r sends to r + 1 + t mod (N−1). Every rank
// computes that alone; or the job's coordinator is asked whom the next round is for (plan()).
//
// Ranks are not in step, and rounds must not cost time:
// - A link that nothing waits for is passed over: a rank that has something to send sends.
// - A round has so many bytes, or one message that is larger. The next begins before the last is out: two
//   messages, or a round's bytes, are in flight.
// - The link of the next round is one with nothing in flight, if there is one: a receiver that does not take
//   what it was sent yet holds up one round, and not the other links.
// - A large message is out only when its receiver has asked for it, which it may do only after it got another
//   one. So what a link that does not move has in flight does not count any more after some looks: as long as
//   something waits and looks are made, something goes.
//
// Priorities: each link has its own order, as before. A message of higher priority on another link ends the
// round after the message that is going, and each round on the way to it; so at most one message of each
// other link goes before it. That is what would share the uplink with it if links were not used in turn.
// Jumping to its link at once would be sooner for this message, but all ranks agree on what is most urgent,
// and would meet at its receiver.
//
// Small messages do not come here. Nor do links through shared memory: they share no uplink.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <queue>
#include <vector>

#include "core/casync/link_queue.h"
#include "core/control/control_plane.h"

namespace hipress {

enum class Coordinator : uint8_t {
  kNone,   ///< Every rank computes its rounds alone.
  kRank0,  ///< Ranks tell rank 0 what waits; it hands out rounds in which no two ranks send to one.
};

struct RoundOptions {
  bool enabled = false;  ///< Large messages use one link at a time. A coordinator implies it.
  Coordinator coordinator = Coordinator::kNone;
  size_t bytes = size_t{1} << 20;  ///< Of a round, at most, unless one message is larger.

  bool used() const { return enabled || coordinator != Coordinator::kNone; }
};

struct RoundCounters {
  uint64_t begun = 0;
  uint64_t unplanned = 0;  ///< Of these, begun without the coordinator's word: it took too long, or is gone.
};

/// Not thread-safe.
class LinkRounds {
 public:
  struct Departure {
    int priority = 0;
    LinkQueue::Item item;
  };

  /// `takesPart`, by peer: the links that are used in rounds.
  LinkRounds(int rank, std::vector<bool> takesPart, const RoundOptions& options);

  /// With fewer than two links there is nothing to choose.
  bool used() const { return links_.size() > 1; }
  bool has(int peer) const { return indexOf_[static_cast<size_t>(peer)] >= 0; }

  void push(int priority, LinkQueue::Item&& item);

  /// What goes now, in flight from here on.
  std::optional<Departure> next();

  /// What next() gave is out.
  void sent(const LinkQueue::Item& item);

  /// To be called at intervals. True if next() may give something because of it. `*waits`: call again.
  bool look(bool* waits);

  /// With a coordinator: whether it is to be asked, what to tell it, and its answer. Nothing is held back for
  /// one that is slow: goAlone() begins one round without it, loseCoordinator() all that follow.
  bool wantsPlan() const { return coordinated_ && !planned_ && waiting_ > 0; }
  std::vector<WaitingLink> waitingLinks() const;
  void plan(int peer);
  void goAlone() { alone_ = true; }
  void loseCoordinator() { coordinated_ = false; }

  bool empty() const { return waiting_ == 0; }
  const RoundCounters& counters() const { return counters_; }

 private:
  struct Waiting {
    int priority = 0;
    uint64_t sequence = 0;
    size_t bytes = 0;
    size_t slot = 0;
    bool operator<(const Waiting& other) const {
      return priority != other.priority ? priority < other.priority : sequence > other.sequence;
    }
  };
  struct InFlight {
    size_t bytes = 0;
    size_t messages = 0;
  };
  struct Link {
    int peer = 0;
    std::priority_queue<Waiting> heap;
    size_t waitingBytes = 0;
    size_t flying = 0;    // messages of this and earlier windows
    uint64_t window = 0;  // number of the window that is open
    InFlight inFlight;    // of this window
    int quietLooks = 0;   // how often in a row nothing had moved
  };

  bool hasRoom() const;
  bool roundIsOver() const;
  bool moreUrgentElsewhere(const Link& link) const;
  bool beginRound();
  std::optional<size_t> nextInTurn() const;
  Departure depart(Link& link);

  const RoundOptions options_;
  std::vector<Link> links_;   // in the order of the schedule: that to rank + 1 is the first
  std::vector<int> indexOf_;  // in links_, by peer; -1: takes no part
  std::vector<LinkQueue::Item> slots_;
  std::vector<size_t> freeSlots_;
  uint64_t sequence_ = 0;
  size_t waiting_ = 0;  // messages
  InFlight inFlight_;   // of the windows that are open, all together
  size_t current_ = 0;  // the round's link
  bool inRound_ = false;
  size_t roundBytes_ = 0;  // gone in this round
  bool coordinated_;
  bool alone_ = false;  // the next round is not waited for
  std::optional<size_t> planned_;
  RoundCounters counters_;
};

}  // namespace hipress
