// SPDX-License-Identifier: Apache-2.0
//
// The schedule in which each rank computes its rounds alone: a thread-safe LinkRounds.
#pragma once

#include <mutex>

#include "core/casync/send/schedules/link_rounds.h"
#include "core/casync/send/schedules/schedule.h"

namespace hipress {

class RoundSchedule : public Schedule {
 public:
  RoundSchedule(size_t roundBytes, SchedulePlace place)
      : RoundSchedule(roundBytes, std::move(place), false) {}

  bool orders(int peer) const final { return rounds_.has(peer); }
  void push(QueuedMessage&& message) final;
  void sent(const QueuedMessage& message) final;
  bool look() final;
  ScheduleCounters counters() const final;
  void stop() override {}

 protected:
  RoundSchedule(size_t roundBytes, SchedulePlace place, bool planned);

  /// Releases messages as long as the rounds allow it.
  void dispatch();
  /// Called when the next round waits for a plan.
  virtual void wantsPlan() {}

  const SchedulePlace place_;
  mutable std::mutex mutex_;  // guards rounds_ and dispatching_
  LinkRounds rounds_;

 private:
  bool dispatching_ = false;  // a thread is in dispatch(); it sees the changes of other threads
};

}  // namespace hipress
