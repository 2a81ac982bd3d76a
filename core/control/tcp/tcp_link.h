// SPDX-License-Identifier: Apache-2.0
//
// A rank's end of its connection with rank 0: it sends requests, waits for replies and receives notices. Its
// thread receives, sends beats, and sends the rest of frames that a caller could not send at once.
#pragma once

#include <atomic>
#include <functional>
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

  /// Waits for the reply, until `silence` has passed: then rank 0 itself does not answer. `what` names the
  /// awaited thing in that error. Warns if rank 0 sends nothing at all meanwhile. If other ranks wait for a
  /// rank, rank 0 warns.
  Reply call(const Request& request, Milliseconds silence, const std::string& what);

  using OnReply = std::function<void(const Reply& reply)>;
  /// Sends the request and returns. `onReply` is called once, without a lock: with the reply, on the link's
  /// thread, or with the failure that ends the link. While an earlier request of this kind has no reply,
  /// later ones wait for each other for up to a millisecond, so that a burst leaves in few packets.
  void callSoon(const Request& request, OnReply onReply);

  /// Sends a request that has no reply. Does not wait.
  void post(const Request& request);

  /// Sends the queued frames and ends the connection. Waiting calls fail with NotInitialized. Idempotent.
  void close();

  NoticeQueue& notices() { return notices_; }

 private:
  void send(const Request& request, uint64_t number);
  void sendSoon(const Request& request, uint64_t number);
  void warnOfSilence(TimePoint now, const std::string& what) const;
  void run();
  bool beat(TimePoint now);
  bool receive();
  void handleFrame(Frame frame);
  void handleNotice(ControlNotice notice);
  void connectionBroke(const std::string& reason);
  static void fail(const std::map<uint64_t, OnReply>& soon, const Failure& failure);

  Connection connection_;
  const int rank_;
  const Milliseconds stallWarning_;
  std::atomic<TimePoint> heard_{Clock::now()};  ///< The time of rank 0's last message; beats count.
  WakeUp wakeUp_;
  NoticeQueue notices_;

  std::mutex mutex_;  ///< guards the members up to `closing_`
  FrameSender out_;
  PendingCalls calls_;
  std::map<uint64_t, OnReply> soon_;  ///< By the number of the reply: what callSoon() has sent.
  TimePoint heldUntil_;               ///< Until then queued requests wait for others; the past: none does.
  Failure ended_;                     ///< The reason why later calls fail.
  bool closing_ = false;

  Heartbeat heartbeat_;  ///< used by the thread only
  std::map<uint64_t, std::vector<SharedValue>>
      values_;                             ///< Used by the thread only: values without their reply yet.
  std::optional<std::string> serverGone_;  ///< Used by the thread only: rank 0's departure.

  std::mutex joinMutex_;  ///< If two threads close, the second waits for the first one's join.
  std::thread thread_;
};

}  // namespace hipress::control
