// SPDX-License-Identifier: Apache-2.0
//
// Turns a failure on one rank into the same error on all ranks, in bounded time: lost ranks, departures,
// conflicts. deadlines.h has the deadlines.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/base/mutex.h"
#include "core/casync/fail/job_end.h"
#include "core/casync/fail/operations_in_flight.h"
#include "core/control/control_plane.h"
#include "core/transport/transport.h"

namespace hipress {

class FailureDetection {
 public:
  FailureDetection(ControlPlane& control, Transport& transport, JobEnd& job, OperationsInFlight& operations)
      : control_(control), transport_(transport), job_(job), operations_(operations) {}

  /// Listens to the control plane, the transport and the peers. All objects that a failure ends must exist.
  /// `others`: gets the notices that are no failures.
  void begin(std::function<void(const ControlNotice&)> others);
  /// Stops listening to the control plane.
  void stop() { control_.onNotice(nullptr); }

  /// Ends the job on all ranks; the first failure stays.
  void fail(const Error& error) { end(error, true); }
  /// The connection with a rank broke.
  void lost(int rank, const std::string& how) { note(rank, how, false); }
  /// How the first rank of the set departed, if no further rank has departed since `time`.
  std::optional<std::string> departedBefore(Clock::time_point time, const ProcessSet& among) const;

 private:
  struct Departure {
    int rank;
    std::string how;
  };

  /// `isOwn`: the other ranks do not know of the error.
  void end(const Error& error, bool isOwn);
  void tellPeers(const Error& error);
  void listenTo(int peer);
  void onNotice(const ControlNotice& notice);
  void note(int rank, const std::string& how, bool saidGoodbye);

  ControlPlane& control_;
  std::function<void(const ControlNotice&)> others_;
  Transport& transport_;
  JobEnd& job_;
  OperationsInFlight& operations_;
  mutable Mutex mutex_;
  /// Ranks that said goodbye or whose connection broke, in the order of their departure.
  std::vector<Departure> departures_ HIPRESS_GUARDED_BY(mutex_);
  Clock::time_point lastDeparture_ HIPRESS_GUARDED_BY(mutex_);
};

}  // namespace hipress
