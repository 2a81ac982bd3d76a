// SPDX-License-Identifier: Apache-2.0
#include "core/control/ledger/gather_table.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "core/control/wire/parts.h"

namespace hipress::control {

namespace {

/// The advice about missing ranks depends on whether rank 0 has ever seen them.
std::string advice(const Roster& roster, const std::vector<int>& missing) {
  std::vector<int> unseen;
  std::vector<int> connected;
  for (int rank : missing) {
    const bool awaited = roster[static_cast<size_t>(rank)].presence == Member::Presence::kAwaited;
    (awaited ? unseen : connected).push_back(rank);
  }
  std::string text;
  if (!unseen.empty()) {
    const std::string subject = connected.empty()
                                    ? (unseen.size() == 1 ? "it was" : "they were")
                                    : rankList(unseen) + (unseen.size() == 1 ? " was" : " were");
    text += " Check that " + subject + " started and can reach rank 0.";
  }
  if (!connected.empty()) {
    const bool one = connected.size() == 1;
    const std::string subject = unseen.empty() ? (one ? "It" : "They") : "R" + rankList(connected).substr(1);
    text += " " + subject + (one ? " is" : " are") + " connected";
    if (one) text += " (" + roster[static_cast<size_t>(connected.front())].origin + ")";
    text += one ? ": it is slow or stuck, or runs different code."
                : ": they are slow or stuck, or run different code.";
  }
  return text;
}

}  // namespace

void GatherTable::arrive(int rank, uint64_t call, AllgatherRequest request, TimePoint now, Outbox& outbox) {
  const auto index = static_cast<size_t>(positionOf(request.among, rank));
  const auto entry = open_.try_emplace(request.key).first;
  Rounds& rounds = entry->second;
  if (!rounds.empty() && rounds.front().among != request.among) {
    const Failure differs =
        failureOf(ErrorKind::kInvalidArgument,
                  "'" + request.key + "' is among " + textOf(rounds.front().among) + ", and rank " +
                      std::to_string(rank) + " called it among " + textOf(request.among) +
                      "; give the same process set on all its ranks");
    outbox.emplace_back(rank, Reply{call, differs, {}, {}});
    return;
  }
  auto round = std::find_if(rounds.begin(), rounds.end(),
                            [index](const Round& r) { return r.values[index] == nullptr; });
  if (round == rounds.end()) {
    round = rounds.emplace(rounds.end());
    round->among = std::move(request.among);
    round->values.resize(static_cast<size_t>(sizeOf(round->among, static_cast<int>(roster_.size()))));
    round->deadline = TimePoint::max();
    round->begun = now;
    round->nextWarning = stallWarning_ > Milliseconds{0} ? now + stallWarning_ : TimePoint::max();
    round->apart = request.apart;
  }
  if (round->failure) {
    static const SharedValue kTold = std::make_shared<const std::string>();
    round->values[index] = kTold;
    outbox.emplace_back(rank, Reply{call, round->failure, {}, {}});
  } else {
    round->values[index] = std::make_shared<const std::string>(std::move(request.value));
    round->waiters.push_back({rank, call});
    const Milliseconds timeout = clampTimeout(request.timeout);
    if (now + timeout < round->deadline) {
      round->deadline = now + timeout;
      round->timeout = timeout;
    }
    settle(request.key, *round, outbox);
  }
  dropFinished(rounds);
  if (rounds.empty()) open_.erase(entry);
}

void GatherTable::rosterChanged(Outbox& outbox) {
  for (auto entry = open_.begin(); entry != open_.end();) {
    for (Round& round : entry->second) settle(entry->first, round, outbox);
    dropFinished(entry->second);
    entry = entry->second.empty() ? open_.erase(entry) : std::next(entry);
  }
}

void GatherTable::expire(TimePoint now, Outbox& outbox) {
  for (auto& [key, rounds] : open_) {
    for (Round& round : rounds) {
      if (!round.failure && round.deadline <= now) fail(round, timedOut(key, round), outbox);
    }
  }
}

std::vector<std::string> GatherTable::stalls(TimePoint now) {
  std::vector<std::string> texts;
  for (auto& [key, rounds] : open_) {
    for (Round& round : rounds) {
      if (round.failure || now < round.nextWarning) continue;
      round.nextWarning = now + stallWarning_;
      std::vector<int> here;
      for (const Waiter& waiter : round.waiters) here.push_back(waiter.rank);
      std::sort(here.begin(), here.end());
      const std::vector<int> absent = missing(round);
      const auto waited = std::chrono::duration_cast<Milliseconds>(now - round.begun);
      texts.push_back(rankList(absent) + (absent.size() == 1 ? " has" : " have") + " not arrived at '" + key +
                      "'; " + rankList(here) + (here.size() == 1 ? " has" : " have") + " waited for " +
                      seconds(waited.count()) + "." + advice(roster_, absent));
    }
  }
  return texts;
}

std::optional<TimePoint> GatherTable::nextDeadline() const {
  std::optional<TimePoint> next;
  for (const auto& [key, rounds] : open_) {
    for (const Round& round : rounds) {
      if (!round.failure) next = earlier(next, std::min(round.deadline, round.nextWarning));
    }
  }
  return next;
}

std::vector<int> GatherTable::missing(const Round& round) const {
  std::vector<int> ranks;
  for (size_t position = 0; position < round.values.size(); ++position) {
    if (!round.values[position]) ranks.push_back(rankAt(round.among, position));
  }
  return ranks;
}

/// Completes the round when it has all values, with the values of ranks that died later. Fails the round when
/// a rank is gone and has not given its value.
void GatherTable::settle(const std::string& key, Round& round, Outbox& outbox) const {
  if (round.failure || round.waiters.empty()) return;
  const std::vector<int> absent = missing(round);
  if (absent.empty()) {
    if (round.apart) {
      replyParts(round, outbox);
    } else {
      for (const Waiter& waiter : round.waiters)
        outbox.emplace_back(waiter.rank, Reply{waiter.call, nullptr, {}, round.values});
    }
    round.waiters.clear();
    return;
  }
  for (int rank : absent) {
    const Member& member = roster_[static_cast<size_t>(rank)];
    if (member.gone())
      return fail(round, failureOf(ErrorKind::kPeerLost, member.end + " (waited for at '" + key + "')"),
                  outbox);
    if (member.joined)
      return fail(round,
                  failureOf(ErrorKind::kUnsupported, "rank " + std::to_string(rank) +
                                                         " has called join(), and takes no part in '" + key +
                                                         "' until all ranks have joined"),
                  outbox);
  }
}

void GatherTable::replyParts(const Round& round, Outbox& outbox) const {
  std::vector<std::vector<std::string_view>> parts;
  for (const SharedValue& value : round.values) {
    auto found = splitParts(*value, round.values.size());
    // A rank that gave another number of parts has given none.
    parts.push_back(found ? std::move(*found) : std::vector<std::string_view>(round.values.size()));
  }
  for (const Waiter& waiter : round.waiters) {
    std::string joined;
    const auto position = static_cast<size_t>(positionOf(round.among, waiter.rank));
    for (const auto& ofRank : parts) appendPart(joined, ofRank[position]);
    outbox.emplace_back(
        waiter.rank,
        Reply{waiter.call, nullptr, {}, {std::make_shared<const std::string>(std::move(joined))}});
  }
}

void GatherTable::fail(Round& round, const Failure& failure, Outbox& outbox) const {
  round.failure = failure;
  for (const Waiter& waiter : round.waiters) {
    outbox.emplace_back(waiter.rank, Reply{waiter.call, round.failure, {}, {}});
  }
  round.waiters.clear();
  for (SharedValue& value : round.values) {  // frees the values, and keeps the marks of ranks that were here
    if (value) value = std::make_shared<const std::string>();
  }
}

void GatherTable::dropFinished(Rounds& rounds) const {
  std::erase_if(rounds, [this](const Round& round) {
    const std::vector<int> absent = missing(round);
    return std::all_of(absent.begin(), absent.end(), [&](int rank) {
      const Member& member = roster_[static_cast<size_t>(rank)];
      return round.failure && (member.gone() || member.joined);
    });
  });
}

Failure GatherTable::timedOut(const std::string& key, const Round& round) const {
  const std::vector<int> absent = missing(round);
  const size_t here = round.values.size() - absent.size();
  return failureOf(ErrorKind::kTimeout,
                   rankList(absent) + (absent.size() == 1 ? " has" : " have") + " not arrived at '" + key +
                       "' within " + seconds(round.timeout.count()) + "; " + std::to_string(here) + " of " +
                       std::to_string(round.values.size()) +
                       (here == 1 ? " ranks is here." : " ranks are here.") + advice(roster_, absent));
}

}  // namespace hipress::control
