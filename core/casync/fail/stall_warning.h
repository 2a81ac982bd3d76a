// SPDX-License-Identifier: Apache-2.0
//
// Long before the deadline a rank warns and names the rank for which it waits. A rank that evaluates, saves
// or compiles for minutes has not failed. A rank that never comes should be known before it ends the job.
#pragma once

#include <string>

#include "core/base/mutex.h"
#include "core/base/time.h"
#include "core/casync/fail/operations_in_flight.h"

namespace hipress {

/// The cause of a wait, as text about this rank: "got nothing from rank 2".
std::string causeOf(const Wait& wait);

class StallWarning {
 public:
  /// `interval`: an operation in flight for longer stalls, and the rank warns once in each interval; 0: the
  /// rank never warns. `timeout` is for the text.
  StallWarning(int rank, Milliseconds interval, Milliseconds timeout, const OperationsInFlight& operations)
      : rank_(rank), interval_(interval), timeout_(timeout), operations_(operations) {}

  /// Warns of all stalled operations, if this operation stalls.
  void check(const AwaitedOperation& operation, Clock::time_point now);

 private:
  const int rank_;
  const Milliseconds interval_;
  const Milliseconds timeout_;
  const OperationsInFlight& operations_;
  Mutex mutex_;
  Clock::time_point warned_ HIPRESS_GUARDED_BY(mutex_);
};

}  // namespace hipress
