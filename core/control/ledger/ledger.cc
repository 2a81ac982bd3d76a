// SPDX-License-Identifier: Apache-2.0
#include "core/control/ledger/ledger.h"

#include <algorithm>
#include <utility>

namespace hipress::control {

namespace {

std::string name(int rank) {
  return "rank " + std::to_string(rank);
}

}  // namespace

Ledger::Ledger(int worldSize, Milliseconds stallWarning)
    : roster_(static_cast<size_t>(worldSize)), gathers_(roster_, stallWarning), tensors_(roster_) {}

Outbox Ledger::arrive(int rank, const std::string& origin) {
  Member& member = roster_[static_cast<size_t>(rank)];
  member.presence = Member::Presence::kHere;
  member.origin = origin;
  Outbox outbox;
  for (const ControlNotice& notice : history_) outbox.emplace_back(rank, notice);
  return outbox;
}

Outbox Ledger::handle(int rank, uint64_t call, Request request, TimePoint now) {
  Outbox outbox;
  if (auto* abortion = std::get_if<AbortRequest>(&request)) {
    abort(rank, *abortion, outbox);
  } else if (auto* departure = std::get_if<LeaveRequest>(&request)) {
    leave(rank, call, *departure, now, outbox);
  } else if (member(rank).gone()) {
    const Failure failure =
        failureOf(ErrorKind::kNotInitialized, member(rank).end + "; it cannot take part any more");
    outbox.emplace_back(rank, Reply{call, failure, {}, {}});
  } else if (Failure wrongSet = refusalOf(request, rank)) {
    outbox.emplace_back(rank, Reply{call, wrongSet, {}, {}});
  } else if (auto* gather = std::get_if<AllgatherRequest>(&request)) {
    gathers_.arrive(rank, call, std::move(*gather), now, outbox);
  } else if (auto* declaration = std::get_if<DeclareRequest>(&request)) {
    tensors_.declare(rank, call, *declaration, outbox);
  } else if (auto* question = std::get_if<AskRequest>(&request)) {
    ask(rank, call, *question, outbox);
  } else if (std::holds_alternative<JoinRequest>(request)) {
    join(rank, call, outbox);
  } else if (auto* demanded = std::get_if<DemandRequest>(&request)) {
    demand(rank, std::move(*demanded), outbox);
  }
  return outbox;
}

/// Of a process set that the rank cannot use; nullptr: it can.
Failure Ledger::refusalOf(const Request& request, int rank) const {
  const auto* gather = std::get_if<AllgatherRequest>(&request);
  const auto* declaration = std::get_if<DeclareRequest>(&request);
  if (gather == nullptr && declaration == nullptr) return nullptr;
  try {
    checkProcessSet(gather != nullptr ? gather->among : declaration->among, rank,
                    static_cast<int>(roster_.size()));
  } catch (const Error& error) {
    return failureOf(error);
  }
  return nullptr;
}

Outbox Ledger::disconnect(int rank, const std::string& reason) {
  Outbox outbox;
  Member& member = roster_[static_cast<size_t>(rank)];
  if (member.presence != Member::Presence::kHere) return outbox;
  member.presence = Member::Presence::kLost;
  if (!member.aborted) {  // after an abort all ranks know a better reason
    member.end = name(rank) + " (" + member.origin + ") was lost: " + reason;
    broadcast({ControlNotice::Kind::kLost, rank, 0, ErrorKind::kPeerLost, member.end}, outbox);
  }
  rosterChanged(outbox);
  return outbox;
}

Outbox Ledger::expire(TimePoint now) {
  Outbox outbox;
  gathers_.expire(now, outbox);
  std::erase_if(leavers_, [&](const Leaver& leaver) {
    if (leaver.deadline > now) return false;
    outbox.emplace_back(leaver.rank, Reply{leaver.call, nullptr, {}, {}});
    return true;
  });
  return outbox;
}

std::optional<TimePoint> Ledger::nextDeadline() const {
  std::optional<TimePoint> next = gathers_.nextDeadline();
  for (const Leaver& leaver : leavers_) next = earlier(next, leaver.deadline);
  return next;
}

void Ledger::ask(int rank, uint64_t call, const AskRequest& request, Outbox& outbox) {
  Reply reply{call, nullptr, {}, {}};
  try {
    auto service = services_.find(request.service);
    if (service == services_.end()) {
      auto made = makeService(request.service, roster_.size());
      if (!made) throw invalidArgument("rank 0 has no service '" + request.service + "'");
      service = services_.emplace(request.service, std::move(made)).first;
    }
    reply.numbers = {service->second->answer(rank, request.question)};
  } catch (const Error& error) {
    reply.failure = failureOf(error);
  }
  outbox.emplace_back(rank, std::move(reply));
}

void Ledger::join(int rank, uint64_t call, Outbox& outbox) {
  roster_[static_cast<size_t>(rank)].joined = true;
  joiners_.push_back({rank, call});
  for (size_t other = 0; other < roster_.size() && joiners_.size() < roster_.size(); ++other) {
    if (static_cast<int>(other) == rank || roster_[other].presence != Member::Presence::kHere) continue;
    outbox.emplace_back(
        static_cast<int>(other),
        ControlNotice{ControlNotice::Kind::kJoined, rank, joinRound_, ErrorKind::kPeerLost, {}, 0});
  }
  settleJoins(outbox);
  gathers_.rosterChanged(outbox);
}

/// A demand for a rank that has not joined is from before the end of the last round: the rank has served it.
void Ledger::demand(int rank, DemandRequest request, Outbox& outbox) {
  const bool known = request.rank >= 0 && static_cast<size_t>(request.rank) < roster_.size();
  if (!known || !member(request.rank).joined) return;
  if (request.excuse) return tensors_.excuse(request.rank, request.tensor, request.text, outbox);
  // With a text, the tensor serves one operation. The rank has taken part in it before it joined.
  if (!request.text.empty() && !tensors_.awaits(request.rank, request.tensor)) return;
  outbox.emplace_back(request.rank,
                      ControlNotice{ControlNotice::Kind::kDemand, rank, request.tensor, ErrorKind::kPeerLost,
                                    std::move(request.text), request.step});
}

/// Answers the calls of join() when all ranks have joined, or when a rank is gone.
void Ledger::settleJoins(Outbox& outbox) {
  if (joiners_.empty()) return;
  Failure failure;
  for (const Member& member : roster_) {
    if (!member.gone()) continue;
    failure = failureOf(ErrorKind::kPeerLost, member.end + " (waited for at join())");
    break;
  }
  if (!failure && joiners_.size() < roster_.size()) return;
  const auto last = static_cast<uint32_t>(joiners_.back().rank);
  for (const Joiner& joiner : joiners_) {
    roster_[static_cast<size_t>(joiner.rank)].joined = false;
    Reply reply{joiner.call, failure, {}, {}};
    if (!failure) reply.numbers = {last, joinRound_};
    outbox.emplace_back(joiner.rank, std::move(reply));
  }
  joiners_.clear();
  ++joinRound_;
}

void Ledger::abort(int rank, const AbortRequest& request, Outbox& outbox) {
  Member& member = roster_[static_cast<size_t>(rank)];
  if (member.gone()) return;  // the first failure explains the later ones
  member.aborted = true;
  member.end = name(rank) + " failed and ended the job: " + request.message;
  broadcast({ControlNotice::Kind::kAborted, rank, 0, request.error, request.message}, outbox);
  rosterChanged(outbox);
}

void Ledger::leave(int rank, uint64_t call, const LeaveRequest& request, TimePoint now, Outbox& outbox) {
  Member& member = roster_[static_cast<size_t>(rank)];
  leavers_.push_back({rank, call, now + clampTimeout(request.linger)});
  if (member.presence == Member::Presence::kHere) {
    member.presence = Member::Presence::kLeft;
    const std::string why = request.reason.empty() ? "it called shutdown" : request.reason;
    const std::string end = name(rank) + " has left the job (" + why + ")";
    if (!member.aborted) member.end = end;
    broadcast({ControlNotice::Kind::kLeft, rank, 0, ErrorKind::kPeerLost, end}, outbox);
  }
  rosterChanged(outbox);
}

void Ledger::rosterChanged(Outbox& outbox) {
  gathers_.rosterChanged(outbox);
  settleJoins(outbox);
  tensors_.rosterChanged();
  std::erase_if(leavers_, [&](const Leaver& leaver) {
    if (!aloneIs(leaver.rank)) return false;
    outbox.emplace_back(leaver.rank, Reply{leaver.call, nullptr, {}, {}});
    return true;
  });
}

void Ledger::broadcast(ControlNotice notice, Outbox& outbox) {
  for (size_t rank = 0; rank < roster_.size(); ++rank) {
    const Member::Presence presence = roster_[rank].presence;
    // A rank that has left may linger, and needs to know for which ranks it need not wait.
    const bool listens = presence == Member::Presence::kHere || presence == Member::Presence::kLeft;
    if (listens && static_cast<int>(rank) != notice.rank) outbox.emplace_back(static_cast<int>(rank), notice);
  }
  history_.push_back(std::move(notice));
}

bool Ledger::over() const {
  return std::all_of(roster_.begin(), roster_.end(), [](const Member& member) { return member.gone(); });
}

bool Ledger::aloneIs(int rank) const {
  for (size_t other = 0; other < roster_.size(); ++other) {
    if (static_cast<int>(other) != rank && !roster_[other].gone()) return false;
  }
  return true;
}

}  // namespace hipress::control
