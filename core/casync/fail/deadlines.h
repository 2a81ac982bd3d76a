// SPDX-License-Identifier: Apache-2.0
//
// Every wait has a deadline, and its error names the rank that is late, not a rank that waits for it.
//   Within a step, the rank whose missing message depends on the fewest others speaks first.
//   Ranks may be a step apart. Before a rank names another one it asks that rank: if the other rank itself
//   has waited for longer than the deadline, it says for whom, and that becomes the error of all ranks.
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
  /// `timeout`: from an operation's submission until its end. `stallWarning`: see StallWarning.
  Deadlines(Milliseconds timeout, Milliseconds stallWarning, Transport& transport, FailureDetection& failures,
            const OperationsInFlight& operations);

  /// Answers the questions of the other ranks from here on.
  void begin();

  /// For a thread that waits for the operation, from time to time: ends the job if the operation is overdue,
  /// and warns if it stalls.
  void check(const AwaitedOperation& operation);

 private:
  /// To a rank that is about to be named: does it wait itself?
  struct Question {
    uint32_t tensor;
    uint32_t step;
    uint32_t depth;  // of the missing message
  };

  /// Whether this call is the first for the wait.
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
  std::vector<uint32_t> questionsTo_ HIPRESS_GUARDED_BY(mutex_);  // by peer: how many this rank has asked
  /// By tensor and step of an overdue operation: when this rank has asked the ranks that it waits for.
  std::map<std::pair<uint32_t, uint32_t>, Clock::time_point> asked_ HIPRESS_GUARDED_BY(mutex_);
};

}  // namespace hipress
