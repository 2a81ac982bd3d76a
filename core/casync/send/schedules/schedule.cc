// SPDX-License-Identifier: Apache-2.0
#include "core/casync/send/schedules/schedule.h"

#include "core/base/thread_name.h"

namespace hipress {
namespace {

/// The deadline for rank 0's answer.
constexpr Milliseconds kPlanTimeout{10};

const control::ServiceRegistration kRegistered(RoundTable::kService, [](size_t worldSize) {
  return std::make_unique<RoundTable>(worldSize);
});

}  // namespace

Schedule::Schedule(const ScheduleOptions& options, SchedulePlace place)
    : place_(std::move(place)),
      orders_((options.rounds || options.coordinator) && std::ranges::count(place_.shareUplink, true) > 1),
      rounds_(place_.rank, place_.shareUplink, options.roundBytes, options.coordinator) {
  if (orders_ && options.coordinator) planner_ = std::thread([this] { plan(); });
}

void Schedule::stop() {
  if (!planner_.joinable()) return;
  // Messages that still wait go, or fail like the messages in flight.
  change([this] {
    stopped_ = true;
    rounds_.goOnAlone();
  });
  planner_.join();
}

void Schedule::plan() {
  nameThisThread("rounds");
  for (bool lost = false;;) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return stopped_ || rounds_.wantsPlan(); });
    if (stopped_) return;
    const std::string question = RoundTable::questionOf(rounds_.waitingLinks());
    lock.unlock();
    std::optional<uint32_t> peer;
    try {
      if (!lost) peer = place_.ask(RoundTable::kService, question, kPlanTimeout);
    } catch (const Error& error) {
      lost = error.kind() != ErrorKind::kTimeout;  // then all further rounds begin without an answer
    }
    change([&] { rounds_.plan(peer); });
  }
}

}  // namespace hipress
