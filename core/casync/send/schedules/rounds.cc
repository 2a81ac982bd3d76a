// SPDX-License-Identifier: Apache-2.0
#include "core/casync/send/schedules/rounds.h"

#include <optional>
#include <utility>

namespace hipress {

RoundSchedule::RoundSchedule(size_t roundBytes, SchedulePlace place, bool planned)
    : place_(std::move(place)), rounds_(place_.rank, place_.shareUplink, roundBytes, planned) {}

void RoundSchedule::push(QueuedMessage&& message) {
  {
    const std::lock_guard lock(mutex_);
    rounds_.push(std::move(message));
  }
  dispatch();
}

void RoundSchedule::sent(const QueuedMessage& message) {
  {
    const std::lock_guard lock(mutex_);
    rounds_.sent(message);
  }
  dispatch();
}

bool RoundSchedule::look() {
  bool waits = false;
  bool opened = false;
  {
    const std::lock_guard lock(mutex_);
    opened = rounds_.look(&waits);
  }
  if (opened) dispatch();
  return waits;
}

ScheduleCounters RoundSchedule::counters() const {
  const std::lock_guard lock(mutex_);
  return rounds_.counters();
}

// One thread at a time, and no recursion: a closed transport answers within the call.
void RoundSchedule::dispatch() {
  for (bool mine = false;; mine = true) {
    std::optional<QueuedMessage> message;
    bool asks = false;
    bool waits = false;
    {
      const std::lock_guard lock(mutex_);
      if (!mine && dispatching_) return;
      message = rounds_.next();
      dispatching_ = message.has_value();
      asks = rounds_.wantsPlan();
      waits = !rounds_.empty();
    }
    if (asks) wantsPlan();
    if (message) {
      try {
        place_.onLeave(std::move(*message));
      } catch (...) {  // no memory: the other messages must not wait for this thread
        const std::lock_guard lock(mutex_);
        dispatching_ = false;
        throw;
      }
      continue;
    }
    if (waits) place_.onWait();
    return;
  }
}

}  // namespace hipress
