// SPDX-License-Identifier: Apache-2.0
//
// Passes notices to a handler, one by one, in order, on a thread of its own. So a handler may take its time,
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

  /// See ControlPlane::onNotice().
  void setHandler(ControlPlane::NoticeHandler handler);

  /// For the answer to a goodbye, which wakes another thread than this one: waits until the handler has had
  /// all notices that came before, one of which may be the failure of the other ranks. Waits for a second at
  /// most, and neither without a handler nor in the handler.
  void awaitDelivery();

  /// After the return no notice is delivered. Only a handler that calls stop() itself runs to its end.
  /// Idempotent.
  void stop();

 private:
  struct State;
  static void run(const std::shared_ptr<State>& state);

  std::shared_ptr<State> state_;  ///< Shared with the thread: a handler may destroy its queue.
  std::thread thread_;
};

}  // namespace hipress::control
