// SPDX-License-Identifier: Apache-2.0
//
// A rank's end of the connection to rank 0: sends requests, waits for replies, hears notices. Its thread
// receives, sends beats, and sends the rest of frames that a caller could not send at once.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "core/control/pending_call.h"
#include "core/control/tcp/heartbeat.h"
#include "core/control/tcp/notice_queue.h"
#include "core/control/tcp/tcp_connect.h"

namespace hipress::control {

class TcpLink {
 public:
  /// `stallWarning`: see RendezvousOptions.
  TcpLink(Connection connection, int rank, const HeartbeatOptions& heartbeat, Milliseconds stallWarning);
  ~TcpLink();
  TcpLink(const TcpLink&) = delete;
  TcpLink& operator=(const TcpLink&) = delete;

  /// Waits for the reply, at most until `silence` has passed: then rank 0 itself does not answer. `what`
  /// says, in that message, what was waited for. Warns if rank 0 sends nothing at all meanwhile; of ranks
  /// that others wait for, rank 0 warns.
  Reply call(const Request& request, Milliseconds silence, const std::string& what);

  /// Sends a request that has no reply. Does not wait.
  void post(const Request& request);

  /// Ends the connection after sending what is queued. Waiting calls fail with NotInitialized. Idempotent.
  void close();

  NoticeQueue& notices() { return notices_; }

 private:
  void send(const Request& request, uint64_t number);
  void warnOfSilence(TimePoint now, const std::string& what) const;
  void run();
  bool beat(TimePoint now);
  bool receive();
  void handleFrame(Frame frame);
  void handleNotice(ControlNotice notice);
  void connectionBroke(const std::string& reason);

  Connection connection_;
  const int rank_;
  const Milliseconds stallWarning_;
  std::atomic<TimePoint> heard_{Clock::now()};  ///< When something came from rank 0, be it a beat.
  WakeUp wakeUp_;
  NoticeQueue notices_;

  std::mutex mutex_;  ///< Guards what follows.
  FrameSender out_;
  PendingCalls calls_;
  Failure ended_;  ///< Why no call can succeed any more.
  bool closing_ = false;

  Heartbeat heartbeat_;  ///< The thread's.
  std::map<uint64_t, std::vector<SharedValue>>
      values_;                             ///< The thread's: values whose reply has not come yet.
  std::optional<std::string> serverGone_;  ///< The thread's: how rank 0 took its leave, if it did.

  std::mutex joinMutex_;  ///< Two closers: the second waits for the first one's join.
  std::thread thread_;
};

}  // namespace hipress::control
