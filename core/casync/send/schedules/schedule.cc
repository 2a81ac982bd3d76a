// SPDX-License-Identifier: Apache-2.0
#include "core/casync/send/schedules/schedule.h"

#include <algorithm>
#include <utility>

#include "core/casync/send/schedules/coordinator.h"
#include "core/casync/send/schedules/rounds.h"

namespace hipress {
namespace {

/// No order between links: no message waits for another link's messages.
class NoSchedule final : public Schedule {
 public:
  bool orders(int) const override { return false; }
  void push(QueuedMessage&&) override {}
  void sent(const QueuedMessage&) override {}
  bool look() override { return false; }
  ScheduleCounters counters() const override { return {}; }
  void stop() override {}
};

}  // namespace

std::string scheduleNamed(bool rounds, const std::string& coordinator) {
  if (coordinator == "rank0") return "coordinator";
  if (coordinator == "none") return rounds ? "rounds" : "none";
  throw invalidArgument("coordinator '" + coordinator + "' does not exist; choose none or rank0");
}

std::unique_ptr<Schedule> makeSchedule(const ScheduleOptions& options, SchedulePlace place) {
  // With fewer than two links there is no choice.
  const bool hasChoice = std::count(place.shareUplink.begin(), place.shareUplink.end(), true) > 1;
  const bool known = options.name == "none" || options.name == "rounds" || options.name == "coordinator";
  if (!known) throw invalidArgument("schedule '" + options.name + "' does not exist");
  if (!hasChoice || options.name == "none") return std::make_unique<NoSchedule>();
  if (options.name == "rounds") return std::make_unique<RoundSchedule>(options.roundBytes, std::move(place));
  return std::make_unique<CoordinatedSchedule>(options.roundBytes, std::move(place));
}

}  // namespace hipress
