// SPDX-License-Identifier: Apache-2.0
//
// A schedule decides which link a rank's large messages use now. A message under a schedule waits with the
// schedule and enters the queue of its link when the schedule releases it. Three implementations: "none" (no
// order between links), "rounds" (link_rounds.h), "coordinator" (coordinator.h). No code outside this folder
// knows which one runs. docs/decisions/ has the measured gain of each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/base/time.h"
#include "core/casync/send/queued_message.h"

namespace hipress {

struct ScheduleOptions {
  std::string name = "none";
  size_t roundBytes = size_t{1} << 20;  ///< Most bytes of a round, unless one message is larger.
};

/// The schedule that the user's options `rounds` and `coordinator` select. Throws
/// InvalidArgument.
std::string scheduleNamed(bool rounds, const std::string& coordinator);

struct ScheduleCounters {
  uint64_t begun = 0;  ///< Rounds so far.
  uint64_t unplanned =
      0;  ///< Rounds that began without the coordinator's answer, which was late or did not come.
};

/// The signature of ControlPlane::ask().
using AskRank0 =
    std::function<uint32_t(const std::string& service, const std::string& question, Milliseconds timeout)>;

/// The facts that a schedule needs about its rank.
struct SchedulePlace {
  int rank = 0;
  std::vector<bool>
      shareUplink;  ///< By peer: whether the link passes the network, so that it shares this rank's uplink.
  AskRank0 ask;
  std::function<void(QueuedMessage&&)> onLeave;  ///< The message goes now. One thread calls it at a time.
  std::function<void()> onWait;                  ///< Messages stay: look() must be called at intervals.
};

/// Thread-safe.
class Schedule {
 public:
  virtual ~Schedule() = default;

  /// Whether large messages for this peer pass the schedule.
  virtual bool orders(int peer) const = 0;
  /// Takes a message for a peer that the schedule orders.
  virtual void push(QueuedMessage&& message) = 0;
  /// Reports that a released message is out.
  virtual void sent(const QueuedMessage& message) = 0;
  /// Returns false when no message waits.
  virtual bool look() = 0;
  virtual ScheduleCounters counters() const = 0;
  /// Ends the schedule's threads. Idempotent.
  virtual void stop() = 0;
};

/// Makes the named schedule. Throws InvalidArgument for an unknown name.
std::unique_ptr<Schedule> makeSchedule(const ScheduleOptions& options, SchedulePlace place);

}  // namespace hipress
