// SPDX-License-Identifier: Apache-2.0
//
// The allgathers and all-to-alls in progress.
//
// Rank 0 matches calls by their count, like collectives: the n-th call of a rank with a key joins the n-th
// round of the key. A round ends alike for all ranks: with all values, or with one failure. A failed round
// stays, without its values, until every rank that is not gone has called and received the failure. So a late
// rank learns the reason at once, and does not join a new round that other ranks have begun with a retry.
#pragma once

#include <deque>
#include <map>
#include <string>
#include <vector>

#include "core/control/request.h"
#include "core/control/roster.h"

namespace hipress::control {

class GatherTable {
 public:
  /// `stallWarning`: see RendezvousOptions.
  GatherTable(const Roster& roster, Milliseconds stallWarning)
      : roster_(roster), stallWarning_(clampTimeout(stallWarning)) {}

  void arrive(int rank, uint64_t call, AllgatherRequest request, TimePoint now, Outbox& outbox);

  /// Fails the rounds that wait for a rank that is gone, or that has joined.
  void rosterChanged(Outbox& outbox);

  /// Fails the rounds whose deadline has passed.
  void expire(TimePoint now, Outbox& outbox);

  /// Sentences about rounds that wait for long, with the missing ranks. Each comes once per interval.
  std::vector<std::string> stalls(TimePoint now);

  /// The time at which expire() or stalls() next has work.
  std::optional<TimePoint> nextDeadline() const;

 private:
  struct Waiter {
    int rank;
    uint64_t call;
  };
  struct Round {
    ProcessSet among;
    std::vector<SharedValue> values;  ///< By position in the set. Null: the value has not arrived.
    std::vector<Waiter> waiters;
    TimePoint begun;
    TimePoint nextWarning;
    TimePoint deadline;
    Milliseconds timeout{0};  ///< The timeout of the caller with this deadline.
    Failure failure;
    bool apart = false;  ///< Each rank gets its own parts of the values.
  };
  using Rounds = std::deque<Round>;

  std::vector<int> missing(const Round& round) const;
  void settle(const std::string& key, Round& round, Outbox& outbox) const;
  void replyParts(const Round& round, Outbox& outbox) const;
  void fail(Round& round, const Failure& failure, Outbox& outbox) const;
  void dropFinished(Rounds& rounds) const;
  Failure timedOut(const std::string& key, const Round& round) const;

  const Roster& roster_;
  const Milliseconds stallWarning_;
  std::map<std::string, Rounds> open_;
};

}  // namespace hipress::control
