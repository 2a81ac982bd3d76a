// SPDX-License-Identifier: Apache-2.0
//
// Where large messages wait for their link's round: LinkRounds for many threads, and for the coordinator, who
// is asked by a thread of its own while the round before is sent.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "core/casync/link_rounds.h"

namespace hipress {

/// Asks the coordinator: to whom this rank sends in its next round. Has a deadline: throws Timeout after it,
/// or another Error if nothing will ever be answered.
using AskCoordinator = std::function<int(const std::vector<WaitingLink>&)>;

class RoundGate {
 public:
  /// Called by whoever uses the gate.
  struct Events {
    std::function<void(LinkRounds::Departure&&)> leaves;  ///< Goes now. By one thread at a time.
    std::function<void()> waits;  ///< Something stays: look() is to be called at intervals.
  };

  /// Without `ask` every rank decides alone.
  RoundGate(LinkRounds rounds, Events events, AskCoordinator ask);
  ~RoundGate();
  RoundGate(const RoundGate&) = delete;
  RoundGate& operator=(const RoundGate&) = delete;

  bool has(int peer) const { return rounds_.has(peer); }

  /// Thread-safe, as what follows.
  void push(int priority, LinkQueue::Item&& item);
  void sent(const LinkQueue::Item& item);
  /// False once nothing waits any more.
  bool look();
  RoundCounters counters() const;

  /// The coordinator is asked no more. Idempotent.
  void stop();

 private:
  void dispatch();
  void coordinate();

  mutable std::mutex mutex_;
  LinkRounds rounds_;
  const Events events_;
  const AskCoordinator ask_;
  bool dispatching_ = false;  // some thread is in dispatch(); it sees what others change
  bool stopped_ = false;
  std::condition_variable changed_;
  std::thread coordinator_;
};

}  // namespace hipress
