// SPDX-License-Identifier: Apache-2.0
#include "core/casync/send/schedules/coordinator.h"

#include <utility>

#include "core/base/thread_name.h"
#include "core/casync/send/schedules/round_table.h"

namespace hipress {
namespace {

/// The deadline for rank 0's answer.
constexpr Milliseconds kPlanTimeout{10};

}  // namespace

CoordinatedSchedule::CoordinatedSchedule(size_t roundBytes, SchedulePlace place)
    : RoundSchedule(roundBytes, std::move(place), true), planner_([this] { plan(); }) {}

CoordinatedSchedule::~CoordinatedSchedule() {
  stop();
}

void CoordinatedSchedule::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    // Messages that still wait then go, or fail like the messages in flight.
    rounds_.goOnAlone();
  }
  changed_.notify_all();
  if (planner_.joinable()) planner_.join();
  dispatch();
}

void CoordinatedSchedule::plan() {
  nameThisThread("rounds");
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stopped_ || rounds_.wantsPlan(); });
    if (stopped_) return;
    const std::string question = RoundTable::questionOf(rounds_.waitingLinks());
    lock.unlock();
    std::optional<int> peer;
    bool lost = false;
    try {
      peer = static_cast<int>(place_.ask(RoundTable::kService, question, kPlanTimeout));
    } catch (const Error& error) {
      lost = error.kind() != ErrorKind::kTimeout;
    }
    lock.lock();
    if (peer) {
      rounds_.plan(*peer);
    } else if (lost) {
      rounds_.goOnAlone();
    } else {
      rounds_.beginAlone();
    }
    lock.unlock();
    dispatch();
    lock.lock();
  }
}

}  // namespace hipress
