// SPDX-License-Identifier: Apache-2.0
//
// The allgathers that are under way.
//
// Calls are matched by count, as collectives are: a rank's n-th call with a key joins that key's n-th round.
// A round ends for all ranks alike: with all ranks' values, or with one failure. A round that failed is
// kept, without its values, until every rank that is not gone has called and heard of the failure: so a late
// rank learns at once why it stands alone, and does not fall into a new round that a retry of the others may
// have begun meanwhile.
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

  /// Fails the rounds that wait for a rank that is gone.
  void rosterChanged(Outbox& outbox);

  /// Fails the rounds whose deadline has passed.
  void expire(TimePoint now, Outbox& outbox);

  /// Sentences about rounds that have waited for long: for which ranks. Each comes once per interval.
  std::vector<std::string> stalls(TimePoint now);

  /// When expire() or stalls() has something to do.
  std::optional<TimePoint> nextDeadline() const;

 private:
  struct Waiter {
    int rank;
    uint64_t call;
  };
  struct Round {
    std::vector<SharedValue> values;  ///< Null: has not arrived.
    std::vector<Waiter> waiters;
    TimePoint begun;
    TimePoint nextWarning;
    TimePoint deadline;
    Milliseconds timeout{0};  ///< The time limit of the caller whose deadline it is.
    Failure failure;
  };
  using Rounds = std::deque<Round>;

  std::vector<int> missing(const Round& round) const;
  void settle(const std::string& key, Round& round, Outbox& outbox) const;
  void fail(Round& round, const Failure& failure, Outbox& outbox) const;
  void dropFinished(Rounds& rounds) const;
  Failure timedOut(const std::string& key, const Round& round) const;

  const Roster& roster_;
  const Milliseconds stallWarning_;
  std::map<std::string, Rounds> open_;
};

}  // namespace hipress::control
