// SPDX-License-Identifier: Apache-2.0
//
// A schedule decides which link a rank's large messages use now: a message waits here, and enters the queue
// of its link when the schedule releases it. By default there is no order between links. With rounds a rank
// uses one link at a time (link_rounds.h). With the paper's coordinator rank 0 chooses that link
// (round_table.h). No code outside this folder knows which schedule runs. docs/decisions/ has the measured
// gain of each.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "core/base/time.h"
#include "core/casync/send/schedules/link_rounds.h"

namespace hipress {

struct ScheduleOptions {
  bool rounds = false;
  bool coordinator = false;             ///< Implies rounds.
  size_t roundBytes = size_t{1} << 20;  ///< Most bytes of a round, unless one message is larger.
};

/// The signature of ControlPlane::ask().
using AskRank0 =
    std::function<uint32_t(const std::string& service, const std::string& question, Milliseconds timeout)>;

/// The facts that a schedule needs about its rank. The last two functions do not throw.
struct SchedulePlace {
  int rank = 0;
  std::vector<bool> shareUplink;  ///< By peer: whether the link passes the network.
  AskRank0 ask;
  std::function<void(QueuedMessage&&)> onLeave;  ///< The message goes now. One thread calls it at a time.
  std::function<void()> onWait;                  ///< Messages stay: look() must be called after a while.
};

/// Thread-safe.
class Schedule {
 public:
  Schedule(const ScheduleOptions& options, SchedulePlace place);
  ~Schedule() { stop(); }

  /// Whether large messages for this peer pass the schedule.
  bool orders(int peer) const { return orders_ && rounds_.has(peer); }
  void push(QueuedMessage&& message) {
    change([&] { rounds_.push(std::move(message)); });
  }
  /// Reports that a released message is out.
  void sent(const QueuedMessage& message) {
    change([&] { rounds_.sent(message); });
  }
  void look() {
    change([&] { rounds_.look(); });
  }
  ScheduleCounters counters() const {
    const std::lock_guard lock(mutex_);
    return rounds_.counters();
  }
  /// Ends the planner. Idempotent.
  void stop();

 private:
  /// Also releases messages as long as the rounds then allow it. One thread at a time, and no recursion: a
  /// closed transport answers within the call.
  template <typename Change>
  void change(const Change& change) {
    std::unique_lock lock(mutex_);
    change();
    if (releasing_) return;
    releasing_ = true;
    while (std::optional<QueuedMessage> message = rounds_.next()) {
      lock.unlock();
      place_.onLeave(std::move(*message));
      lock.lock();
    }
    releasing_ = false;
    const bool waits = !rounds_.empty();
    lock.unlock();
    changed_.notify_one();
    if (waits) place_.onWait();
  }
  void plan();

  const SchedulePlace place_;
  const bool orders_;         // with fewer than two links there is no choice
  mutable std::mutex mutex_;  // guards rounds_, releasing_ and stopped_
  LinkRounds rounds_;
  bool releasing_ = false;  // a thread releases messages; it sees the changes of other threads
  bool stopped_ = false;
  std::condition_variable changed_;
  std::thread planner_;  // with the coordinator: asks for the next round while the current round is sent
};

}  // namespace hipress
