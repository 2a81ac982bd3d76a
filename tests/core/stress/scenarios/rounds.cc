// SPDX-License-Identifier: Apache-2.0
//
// Link rounds: each rank's next peer, no needless idle time, urgent messages first, and receivers that wait
// in their own order and get all messages.
#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <numeric>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "core/casync/send/communication_queue.h"
#include "core/casync/send/schedules/link_rounds.h"
#include "core/casync/send/schedules/round_table.h"
#include "tests/core/stress/scenarios/bundles.h"
#include "tests/core/stress/scenarios/scenarios.h"
#include "tests/core/stress/world/check.h"
#include "tests/core/stress/world/fake_transport.h"

namespace hipress::stress {
namespace {

constexpr size_t kBytes = 1000;

LinkRounds roundsAt(int rank, int worldSize, size_t roundBytes, bool planned = false) {
  return {rank, std::vector<bool>(static_cast<size_t>(worldSize), true), roundBytes, planned};
}

/// A message for this peer; its number is the tensor's number.
QueuedMessage message(int priority, int peer, uint32_t number = 0, size_t bytes = kBytes) {
  static const Bytes payload(1 << 20);
  QueuedMessage made{priority, numbered(number, {payload.data(), bytes}, nullptr), nullptr};
  made.request.peer = peer;
  return made;
}

void noTwoSendToOne() {
  for (int worldSize = 2; worldSize < 10; ++worldSize) {
    std::vector<LinkRounds> ranks;
    for (int rank = 0; rank < worldSize; ++rank) {
      ranks.push_back(roundsAt(rank, worldSize, kBytes));
      for (int peer = 0; peer < 3 * worldSize; ++peer) {
        if (peer % worldSize != rank) ranks.back().push(message(0, peer % worldSize));
      }
    }
    for (int round = 0; round < 3 * (worldSize - 1); ++round) {
      std::set<int> receivers;
      for (int rank = 0; rank < worldSize; ++rank) {
        const auto sent = ranks[static_cast<size_t>(rank)].next();
        CHECK(sent.has_value(), worldSize, round, rank);
        const int peer = sent->request.peer;
        CHECK(peer == (rank + 1 + round % (worldSize - 1)) % worldSize, worldSize, round, rank, peer);
        CHECK(receivers.insert(peer).second, worldSize, round, rank, peer);
        ranks[static_cast<size_t>(rank)].sent(*sent);
      }
    }
    for (const auto& rank : ranks) CHECK(rank.empty());
  }
}

void idlesOnlyWithEnoughInFlight(Random& random) {
  const auto worldSize = static_cast<int>(2 + random.below(7));
  const size_t roundBytes = random.among<size_t>({1, 5000, 100000});
  LinkRounds rounds = roundsAt(1, worldSize, roundBytes);
  std::vector<QueuedMessage> inFlight;
  size_t waiting = 0;
  size_t bytes = 0;
  for (int turn = 0; turn < 2000; ++turn) {
    if (random.oneIn(2)) {
      const auto peer = static_cast<int>(random.below(static_cast<size_t>(worldSize)));
      if (peer == 1) continue;
      rounds.push(message(static_cast<int>(random.below(5)), peer, 0, random.below(20000)));
      ++waiting;
    } else if (!inFlight.empty()) {
      std::swap(inFlight[random.below(inFlight.size())], inFlight.back());
      rounds.sent(inFlight.back());
      bytes -= inFlight.back().bytes();
      inFlight.pop_back();
    }
    while (auto gone = rounds.next()) {
      --waiting;
      CHECK(inFlight.size() < 2 || bytes < roundBytes, inFlight.size(), bytes);
      bytes += gone->bytes();
      inFlight.push_back(std::move(*gone));
    }
    CHECK(waiting == 0 || (inFlight.size() >= 2 && bytes >= roundBytes), waiting, inFlight.size(), bytes);
    CHECK(rounds.empty() == (waiting == 0));
  }
}

/// At most one message per link goes before the most urgent message, and each link keeps its order.
void urgentOnesPass(Random& random) {
  const auto worldSize = static_cast<int>(3 + random.below(6));
  LinkRounds rounds = roundsAt(0, worldSize, 1 << 20);
  std::vector<QueuedMessage> inFlight;
  for (uint32_t number = 0; number < 400; ++number) {
    const auto peer = static_cast<int>(1 + number % static_cast<uint32_t>(worldSize - 1));
    rounds.push(message(static_cast<int>(random.below(20)), peer, number));
  }
  const auto go = [&] {
    auto gone = rounds.next();
    CHECK(gone.has_value());
    rounds.sent(*gone);
    return std::move(*gone);
  };
  for (size_t before = random.below(50); before > 0; --before) go();
  const auto urgentPeer = static_cast<int>(1 + random.below(static_cast<size_t>(worldSize - 1)));
  rounds.push(message(100, urgentPeer, 1000));
  int passed = 0;
  while (go().request.tag.tensor != 1000) ++passed;
  CHECK(passed <= worldSize - 1, passed, worldSize);
  std::map<int, std::pair<int, uint32_t>> last;
  while (!rounds.empty()) {
    const QueuedMessage gone = go();
    const int priority = gone.priority;
    const uint32_t number = gone.request.tag.tensor;
    if (const auto before = last.find(gone.request.peer); before != last.end()) {
      const auto& [priorityBefore, numberBefore] = before->second;
      CHECK(priorityBefore > priority || (priorityBefore == priority && numberBefore < number));
    }
    last[gone.request.peer] = {priority, number};
  }
}

/// A receiver waits for one tensor after the other in its own order, and the senders have another order. All
/// messages must arrive.
void receiversInAnyOrderGetEverything(Random& random) {
  const auto worldSize = static_cast<int>(2 + random.below(6));
  const auto ranks = static_cast<size_t>(worldSize);
  constexpr uint32_t kTensors = 12;
  const auto roundBytes = random.among<size_t>({1, 3000, 1 << 20});
  const bool coordinated = random.oneIn(2);
  RoundTable table(ranks);

  std::vector<LinkRounds> senders;
  std::vector<std::vector<uint32_t>> orders(ranks);
  std::vector<std::set<std::pair<size_t, uint32_t>>> received(ranks);  // (sender, tensor)
  std::vector<std::vector<QueuedMessage>> inFlight(ranks);
  for (int rank = 0; rank < worldSize; ++rank) {
    senders.push_back(roundsAt(rank, worldSize, roundBytes, coordinated));
    auto& order = orders[static_cast<size_t>(rank)];
    order.resize(kTensors);
    std::iota(order.begin(), order.end(), 0);
    random.shuffle(order);
    for (uint32_t tensor = 0; tensor < kTensors; ++tensor) {
      for (int peer = 0; peer < worldSize; ++peer) {
        if (peer != rank) senders.back().push(message(static_cast<int>(random.below(4)), peer, tensor));
      }
    }
  }
  const auto asksFor = [&](size_t receiver, uint32_t tensor) {
    for (const uint32_t earlier : orders[receiver]) {
      if (earlier == tensor) return true;
      for (size_t sender = 0; sender < ranks; ++sender) {
        if (sender != receiver && !received[receiver].contains({sender, earlier})) return false;
      }
    }
    return false;
  };
  int looks = 0;
  for (size_t open = kTensors * ranks * (ranks - 1); open > 0;) {
    bool moved = false;
    for (size_t rank = 0; rank < ranks; ++rank) {
      LinkRounds& sender = senders[rank];
      if (sender.wantsPlan()) {
        sender.plan(table.next(static_cast<int>(rank), sender.waitingLinks()).peer);
      }
      while (auto gone = sender.next()) {
        inFlight[rank].push_back(std::move(*gone));
        moved = true;
        if (sender.wantsPlan()) {
          sender.plan(table.next(static_cast<int>(rank), sender.waitingLinks()).peer);
        }
      }
      std::erase_if(inFlight[rank], [&](const QueuedMessage& sent) {
        const auto receiver = static_cast<size_t>(sent.request.peer);
        if (!asksFor(receiver, sent.request.tag.tensor)) return false;
        CHECK(received[receiver].insert({rank, sent.request.tag.tensor}).second);
        sender.sent(sent);
        --open;
        return moved = true;
      });
    }
    if (moved) continue;
    for (auto& sender : senders) sender.look();
    CHECK(++looks < 10000, "nothing moves", open, worldSize, coordinated);
  }
}

void noSlotHasAReceiverTwice(Random& random) {
  const size_t ranks = 2 + random.below(8);
  RoundTable table(ranks);
  std::set<std::pair<uint64_t, int>> given;
  std::vector<uint64_t> lastSlot(ranks, 0);
  for (int turn = 0; turn < 500; ++turn) {
    const size_t rank = random.below(ranks);
    std::vector<WaitingLink> waiting;
    for (size_t peer = 0; peer < ranks; ++peer) {
      if (peer == rank || random.oneIn(3)) continue;
      waiting.push_back({static_cast<int>(peer), static_cast<int>(random.below(3)), random.below(5)});
    }
    if (waiting.empty()) continue;
    const auto round = table.next(static_cast<int>(rank), waiting);
    CHECK(given.insert({round.slot, round.peer}).second, round.slot, round.peer);
    CHECK(std::any_of(waiting.begin(), waiting.end(),
                      [&](const auto& link) { return link.peer == round.peer; }));
    CHECK(lastSlot[rank] == 0 || round.slot > lastSlot[rank] - 1, rank);
    lastSlot[rank] = round.slot + 1;
  }
  const auto best = table.next(0, {{1, 5, 10}});
  CHECK(best.peer == 1);
  if (ranks > 2) CHECK(RoundTable(ranks).next(0, {{1, 5, 10}, {2, 6, 1}}).peer == 2);
}

/// The coordinator answers in time, late, or never: all messages go, and the counters tell the case.
void goesOnWithoutACoordinator() {
  enum class Ends { kAnswers, kIsLate, kIsGone };
  for (const Ends ends : {Ends::kAnswers, Ends::kIsLate, Ends::kIsGone}) {
    FakeTransport transport(4);
    CommunicationOptions options;
    options.bundle.messageBytes = 0;
    options.schedule = {true, true, kBytes};
    std::atomic<int> asked{0};
    std::atomic<int> sent{0};
    const Bytes payload(kBytes);
    RoundTable table(4);
    CommunicationQueue queue(transport, options, mustNotThrow,
                             [&](const auto& service, const auto& question, Milliseconds) {
                               CHECK(service == RoundTable::kService, service);
                               ++asked;
                               if (ends == Ends::kIsGone)
                                 throw Error(ErrorKind::kPeerLost, "rank 0 was lost");
                               if (ends == Ends::kAnswers) return table.answer(0, question);
                               std::this_thread::sleep_for(std::chrono::milliseconds(1));
                               throw Error(ErrorKind::kTimeout, "rank 0 does not answer");
                             });
    constexpr int kMessages = 30;
    for (int number = 0; number < kMessages; ++number) {
      SendRequest request = numbered(0, payload, [&](const Failure&) { ++sent; });
      request.peer = 1 + number % 3;
      queue.push(0, std::move(request), [] {});
    }
    while (sent < kMessages) {
      if (!transport.complete()) std::this_thread::yield();  // the watchdog sets the deadline
    }
    const ScheduleCounters counters = queue.scheduleCounters();
    CHECK(counters.begun == kMessages, counters.begun);
    CHECK(counters.unplanned == (ends == Ends::kAnswers ? 0 : kMessages), counters.unplanned);
    CHECK(ends != Ends::kIsGone || asked == 1, asked);
  }
}

}  // namespace

void stressRounds(Random& random) {
  noTwoSendToOne();
  idlesOnlyWithEnoughInFlight(random);
  urgentOnesPass(random);
  receiversInAnyOrderGetEverything(random);
  noSlotHasAReceiverTwice(random);
  goesOnWithoutACoordinator();
}

}  // namespace hipress::stress
