// SPDX-License-Identifier: Apache-2.0
//
// Long before the deadline a rank says for whom it waits: a rank that evaluates, saves or compiles for
// minutes has not failed, but a rank that never comes should be known before the job ends because of it.
#pragma once

#include <string>

#include "core/base/mutex.h"
#include "core/base/time.h"
#include "core/casync/fail/operations_in_flight.h"

namespace hipress {

/// What a rank says of itself: "got nothing from rank 2".
std::string causeOf(const Wait& wait);

class StallWarning {
 public:
  /// `interval`: after this time without an end an operation stalls; the rank warns once in each interval. 0:
  /// it does not warn. `timeout` is for the text.
  StallWarning(int rank, Milliseconds interval, Milliseconds timeout, const OperationsInFlight& operations)
      : rank_(rank), interval_(interval), timeout_(timeout), operations_(operations) {}

  /// Warns of all operations that stall, if this one does.
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
