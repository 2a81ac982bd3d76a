// SPDX-License-Identifier: Apache-2.0
#include "core/casync/round_gate.h"

#include <optional>
#include <utility>

#include "core/thread_name.h"

namespace hipress {

RoundGate::RoundGate(LinkRounds rounds, Events events, AskCoordinator ask)
    : rounds_(std::move(rounds)), events_(std::move(events)), ask_(std::move(ask)) {
  if (ask_) coordinator_ = std::thread([this] { coordinate(); });
}

RoundGate::~RoundGate() {
  stop();
}

void RoundGate::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    // What still waits goes, or fails, with what is in flight.
    rounds_.loseCoordinator();
  }
  changed_.notify_all();
  if (coordinator_.joinable()) coordinator_.join();
  dispatch();
}

void RoundGate::push(int priority, LinkQueue::Item&& item) {
  {
    const std::lock_guard lock(mutex_);
    rounds_.push(priority, std::move(item));
  }
  dispatch();
}

void RoundGate::sent(const LinkQueue::Item& item) {
  {
    const std::lock_guard lock(mutex_);
    rounds_.sent(item);
  }
  dispatch();
}

bool RoundGate::look() {
  bool waits = false;
  bool opened = false;
  {
    const std::lock_guard lock(mutex_);
    opened = rounds_.look(&waits);
  }
  if (opened) dispatch();
  return waits;
}

RoundCounters RoundGate::counters() const {
  const std::lock_guard lock(mutex_);
  return rounds_.counters();
}

// One thread at a time, and never within itself: a closed transport answers at once.
void RoundGate::dispatch() {
  for (bool mine = false;; mine = true) {
    std::optional<LinkRounds::Departure> departure;
    bool asks = false;
    bool waits = false;
    {
      const std::lock_guard lock(mutex_);
      if (!mine && dispatching_) return;
      departure = rounds_.next();
      dispatching_ = departure.has_value();
      asks = rounds_.wantsPlan() && !stopped_;
      waits = !rounds_.empty();
    }
    if (asks) changed_.notify_one();
    if (departure) {
      events_.leaves(std::move(*departure));
      continue;
    }
    if (waits) events_.waits();
    return;
  }
}

void RoundGate::coordinate() {
  nameThisThread("rounds");
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stopped_ || rounds_.wantsPlan(); });
    if (stopped_) return;
    const std::vector<WaitingLink> waiting = rounds_.waitingLinks();
    lock.unlock();
    std::optional<int> peer;
    bool lost = false;
    try {
      peer = ask_(waiting);
    } catch (const Error& error) {
      lost = error.kind() != ErrorKind::kTimeout;
    }
    lock.lock();
    if (peer) {
      rounds_.plan(*peer);
    } else if (lost) {
      rounds_.loseCoordinator();
    } else {
      rounds_.goAlone();
    }
    lock.unlock();
    dispatch();
    lock.lock();
  }
}

}  // namespace hipress
