// SPDX-License-Identifier: Apache-2.0
//
// A schedule decides which link a rank's large messages use now. It stands in front of the links' queues: a
// message that it orders reaches the queue of its link only when the schedule lets it go. Three
// implementations: "none" (each link by itself), "rounds" (link_rounds.h), "coordinator" (coordinator.h).
// Nothing outside this folder knows which one runs. What each was measured to gain: docs/decisions/.
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
  size_t roundBytes = size_t{1} << 20;  ///< The bytes of a round at most, unless one message is larger.
};

/// The name of the schedule that the users' options `rounds` and `coordinator` ask for. Throws
/// InvalidArgument.
std::string scheduleNamed(bool rounds, const std::string& coordinator);

struct ScheduleCounters {
  uint64_t begun = 0;  ///< Rounds.
  uint64_t unplanned =
      0;  ///< Rounds that began without the coordinator's answer, which was late or did not come.
};

/// ControlPlane::ask().
using AskRank0 =
    std::function<uint32_t(const std::string& service, const std::string& question, Milliseconds timeout)>;

/// What a schedule is made from.
struct SchedulePlace {
  int rank = 0;
  std::vector<bool>
      shareUplink;  ///< By peer: the links through the network, which all use this rank's uplink.
  AskRank0 ask;
  std::function<void(QueuedMessage&&)> onLeave;  ///< The message goes now. One thread calls it at a time.
  std::function<void()> onWait;                  ///< Messages stay: look() is to be called at intervals.
};

/// Thread-safe.
class Schedule {
 public:
  virtual ~Schedule() = default;

  /// Whether large messages for this peer pass the schedule.
  virtual bool orders(int peer) const = 0;
  /// Takes a message for such a peer.
  virtual void push(QueuedMessage&& message) = 0;
  /// A message that it let go is out.
  virtual void sent(const QueuedMessage& message) = 0;
  /// False once no message waits any more.
  virtual bool look() = 0;
  virtual ScheduleCounters counters() const = 0;
  /// Ends the schedule's threads. Idempotent.
  virtual void stop() = 0;
};

/// Throws InvalidArgument for an unknown name.
std::unique_ptr<Schedule> makeSchedule(const ScheduleOptions& options, SchedulePlace place);

}  // namespace hipress
