// SPDX-License-Identifier: Apache-2.0
//
// Waits until every link of a rank has worked in both directions: the peer's greeting has come, and this
// rank's greeting has gone out. One thread waits; the progress thread reports.
#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "core/control/control_plane.h"

namespace hipress {

class LinkCheck {
 public:
  explicit LinkCheck(int rank, int worldSize);

  void greeted(int peer);
  void flushed(int peer);
  void failed(const Error& error);

  /// Throws the error that failed() reported, PeerLost if `control` reports a lost rank, Timeout with the
  /// missing ranks, or NotInitialized after `stop`.
  void wait(ControlPlane& control, Milliseconds timeout, const std::stop_token& stop);

 private:
  bool allDone() const;

  const int rank_;
  std::mutex mutex_;  ///< guards the members below
  std::condition_variable_any changed_;
  std::vector<bool> greeted_;
  std::vector<bool> flushed_;
  std::optional<Error> error_;
};

}  // namespace hipress
