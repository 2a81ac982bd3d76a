// SPDX-License-Identifier: Apache-2.0
//
// Rank 0's record of the job, as a pure state machine without sockets, threads and clock. Its driver (the TCP
// server or the local control plane) passes the ranks' requests and the time to it, and delivers the outbox
// in order. This order makes all ranks get the notices alike.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/control/ledger/gather_table.h"
#include "core/control/ledger/tensor_table.h"
#include "core/control/request.h"
#include "core/control/roster.h"
#include "core/control/service.h"

namespace hipress::control {

class Ledger {
 public:
  /// `stallWarning`: see RendezvousOptions.
  explicit Ledger(int worldSize, Milliseconds stallWarning = Milliseconds{0});
  Ledger(const Ledger&) = delete;  // its tables refer to its roster
  Ledger& operator=(const Ledger&) = delete;

  const Member& member(int rank) const { return roster_[static_cast<size_t>(rank)]; }

  /// An awaited rank is here. The rank gets the notices that it missed.
  Outbox arrive(int rank, const std::string& origin);

  /// `call`: the number for the reply.
  Outbox handle(int rank, uint64_t call, Request request, TimePoint now);

  /// The connection with `rank` has ended. `reason` completes "rank 2 (host h, pid 1) was lost: ...".
  Outbox disconnect(int rank, const std::string& reason);

  /// Answers the calls whose deadline has passed.
  Outbox expire(TimePoint now);
  /// Sentences about ranks for which other ranks wait; see GatherTable::stalls().
  std::vector<std::string> stalls(TimePoint now) { return gathers_.stalls(now); }
  std::optional<TimePoint> nextDeadline() const;

  /// Whether every rank has been here and is gone.
  bool over() const;

 private:
  struct Leaver {
    int rank;
    uint64_t call;
    TimePoint deadline;
  };
  struct Joiner {
    int rank;
    uint64_t call;
  };

  Failure refusalOf(const Request& request, int rank) const;
  void ask(int rank, uint64_t call, const AskRequest& request, Outbox& outbox);
  void abort(int rank, const AbortRequest& request, Outbox& outbox);
  void leave(int rank, uint64_t call, const LeaveRequest& request, TimePoint now, Outbox& outbox);
  void join(int rank, uint64_t call, Outbox& outbox);
  void demand(int rank, DemandRequest request, Outbox& outbox);
  void settleJoins(Outbox& outbox);
  void rosterChanged(Outbox& outbox);
  void broadcast(ControlNotice notice, Outbox& outbox);
  bool aloneIs(int rank) const;

  Roster roster_;
  GatherTable gathers_;
  TensorTable tensors_;
  std::map<std::string, std::unique_ptr<Service>> services_;  ///< The services that ranks have asked so far.
  std::vector<Leaver> leavers_;
  std::vector<Joiner> joiners_;  ///< In the order of their calls.
  uint32_t joinRound_ = 1;
  std::vector<ControlNotice> history_;  ///< For ranks that join later: at most two per rank.
};

}  // namespace hipress::control
