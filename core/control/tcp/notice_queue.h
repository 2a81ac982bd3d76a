// SPDX-License-Identifier: Apache-2.0
//
// Hands notices to a handler, one by one, in order, on a thread of its own: so a handler may take its time,
// take locks that callers of the control plane hold, and call the control plane itself.
#pragma once

#include <memory>
#include <thread>

#include "core/control/control_plane.h"

namespace hipress::control {

class NoticeQueue {
 public:
  NoticeQueue();
  ~NoticeQueue();
  NoticeQueue(const NoticeQueue&) = delete;
  NoticeQueue& operator=(const NoticeQueue&) = delete;

  void push(ControlNotice notice);

  /// As ControlPlane::onNotice.
  void setHandler(ControlPlane::NoticeHandler handler);

  /// Nothing is delivered any more once this returns, except that a handler that calls it runs to its end.
  /// Idempotent.
  void stop();

 private:
  struct State;
  static void run(const std::shared_ptr<State>& state);

  std::shared_ptr<State> state_;  ///< The thread's too: a handler may destroy the queue that runs it.
  std::thread thread_;
};

}  // namespace hipress::control
