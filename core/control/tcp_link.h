// SPDX-License-Identifier: Apache-2.0
//
// A rank's end of the connection to rank 0: sends requests, waits for replies, hears notices. Its thread
// receives, beats, and sends what a caller's own try left over.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "core/control/heartbeat.h"
#include "core/control/notice_queue.h"
#include "core/control/pending_call.h"
#include "core/control/tcp_connect.h"

namespace hipress::control {

class TcpLink {
 public:
  TcpLink(Connection connection, int rank, const HeartbeatOptions& heartbeat);
  ~TcpLink();
  TcpLink(const TcpLink&) = delete;
  TcpLink& operator=(const TcpLink&) = delete;

  /// Waits for the reply, at most until `silence` has passed: then rank 0 itself does not answer. `what`
  /// says, in that message, what was waited for.
  Reply call(const Request& request, Milliseconds silence, const std::string& what);

  /// Sends a request that has no reply. Does not wait.
  void post(const Request& request);

  /// Ends the connection after sending what is queued. Waiting calls fail with NotInitialized. Idempotent.
  void close();

  NoticeQueue& notices() { return notices_; }

 private:
  void send(const Request& request, uint64_t number);
  void run();
  bool beat(TimePoint now);
  bool receive();
  void handleFrame(Frame frame);
  void handleNotice(ControlNotice notice);
  void connectionBroke(const std::string& reason);

  Connection connection_;
  const int rank_;
  WakeUp wakeUp_;
  NoticeQueue notices_;

  std::mutex mutex_;  ///< Guards what follows.
  FrameSender out_;
  PendingCalls calls_;
  std::optional<Failure> ended_;  ///< Why no call can succeed any more.
  bool closing_ = false;

  Heartbeat heartbeat_;  ///< The thread's.
  std::map<uint64_t, std::vector<SharedValue>>
      values_;                             ///< The thread's: values whose reply has not come yet.
  std::optional<std::string> serverGone_;  ///< The thread's: how rank 0 took its leave, if it did.

  std::mutex joinMutex_;  ///< Two closers: the second waits for the first one's join.
  std::thread thread_;
};

}  // namespace hipress::control
