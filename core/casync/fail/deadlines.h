// SPDX-License-Identifier: Apache-2.0
//
// Every wait has a deadline, and its error names the rank that is late, not a rank that waits for it.
//   In one step, the rank whose missing message depends on the fewest others reports first.
//   Ranks may be one step apart. Before a rank names another rank it asks that rank. If the other rank has
//   waited longer than the deadline itself, its answer names the late rank, and becomes all ranks' error.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "core/base/mutex.h"
#include "core/casync/fail/failure_detection.h"
#include "core/casync/fail/operations_in_flight.h"
#include "core/casync/fail/stall_warning.h"

namespace hipress {

class Deadlines {
 public:
  /// `timeout`: from the submission of an operation until its end. `stallWarning`: see StallWarning.
  Deadlines(Milliseconds timeout, Milliseconds stallWarning, Transport& transport, FailureDetection& failures,
            const OperationsInFlight& operations);

  /// From here on this rank answers the questions of other ranks.
  void begin();

  /// A thread that waits for the operation calls this from time to time. Ends the job if the operation is
  /// overdue, and warns if the operation stalls.
  void check(const AwaitedOperation& operation);

 private:
  /// A question to a rank that is about to be named: does that rank wait itself?
  struct Question {
    uint32_t tensor;
    uint32_t step;
    uint32_t depth;  // of the missing message
  };

  /// Whether this is the first call for the wait.
  bool isNew(const Wait& wait, Clock::time_point now, Clock::time_point* asked);
  void ask(const Wait& wait);
  void listenTo(int peer, uint32_t number);
  void answer(const Question& question);
  Error timeoutError(const Wait& wait) const;

  const Milliseconds timeout_;
  const Milliseconds grace_;
  Transport& transport_;
  FailureDetection& failures_;
  const OperationsInFlight& operations_;
  StallWarning stallWarning_;
  Mutex mutex_;
  std::vector<uint32_t> questionsTo_ HIPRESS_GUARDED_BY(mutex_);  // by peer: the number of questions so far
  /// By tensor and step of an overdue operation: the time at which this rank asked the late ranks.
  std::map<std::pair<uint32_t, uint32_t>, Clock::time_point> asked_ HIPRESS_GUARDED_BY(mutex_);
};

}  // namespace hipress
