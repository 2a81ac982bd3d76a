// SPDX-License-Identifier: Apache-2.0
#include "core/control/tcp/tcp_link.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <utility>

#include "core/base/thread_name.h"
#include "core/base/warning.h"
#include "core/control/roster.h"

namespace hipress::control {

namespace {

/// When this rank closes: how long it waits until rank 0 has taken the queued frames and hung up.
constexpr Milliseconds kHangUpTime{1000};

/// How long requests wait for others of a burst.
constexpr Milliseconds kBurst{1};

const Milliseconds kNever = clampTimeout(Milliseconds::max());

/// A healthy rank 0 sends a beat in every interval.
Milliseconds noLessThanBeats(Milliseconds stallWarning, const HeartbeatOptions& heartbeat) {
  if (stallWarning <= Milliseconds{0}) return kNever;
  return std::max(clampTimeout(stallWarning), 2 * clampTimeout(heartbeat.interval));
}

}  // namespace

TcpLink::TcpLink(Connection connection, int rank, const HeartbeatOptions& heartbeat,
                 Milliseconds stallWarning)
    : connection_(std::move(connection)),
      rank_(rank),
      stallWarning_(noLessThanBeats(stallWarning, heartbeat)),
      out_(connection_.socket.get()),
      heartbeat_(connection_.socket.get(), heartbeat),
      thread_([this] { run(); }) {}

TcpLink::~TcpLink() {
  close();
}

Reply TcpLink::call(const Request& request, Milliseconds silence, const std::string& what) {
  const TimePoint deadline = Clock::now() + clampTimeout(silence);
  PendingCall pending;
  std::unique_lock lock(mutex_);
  if (ended_) throw Error(*ended_);
  const uint64_t number = calls_.add(pending);
  send(request, number);
  bool answered = false;
  for (TimePoint lookAgain = Clock::now(); !answered && Clock::now() < deadline;) {
    lookAgain += stallWarning_;
    answered = pending.answered.wait_until(lock, std::min(deadline, lookAgain),
                                           [&] { return pending.reply.has_value(); });
    if (!answered) warnOfSilence(Clock::now(), what);
  }
  calls_.remove(number);
  if (answered) return checked(*pending.reply);
  throw Error(ErrorKind::kTimeout, "rank 0 does not answer: rank " + std::to_string(rank_) + " waited " +
                                       seconds(silence.count()) + " for " + what +
                                       ". Its process is stopped or overloaded, or the network to it is cut");
}

void TcpLink::warnOfSilence(TimePoint now, const std::string& what) const {
  const auto silence = std::chrono::duration_cast<Milliseconds>(now - heard_.load());
  if (silence < stallWarning_) return;
  warn(rank_, "rank 0 has sent nothing for " + seconds(silence.count()) + ", while this rank waits for " +
                  what + ". Its process is stopped or overloaded, or the network to it is cut");
}

void TcpLink::callSoon(const Request& request, OnReply onReply) {
  Failure ended;
  {
    const std::lock_guard lock(mutex_);
    ended = ended_;
    if (!ended) {
      const uint64_t number = calls_.next();
      soon_.empty() ? send(request, number) : sendSoon(request, number);
      soon_.emplace(number, std::move(onReply));
      return;
    }
  }
  onReply(Reply{0, ended, {}, {}});
}

void TcpLink::fail(const std::map<uint64_t, OnReply>& soon, const Failure& failure) {
  for (const auto& [number, onReply] : soon) onReply(Reply{number, failure, {}, {}});
}

void TcpLink::post(const Request& request) {
  const std::lock_guard lock(mutex_);
  if (!ended_) send(request, 0);
}

/// The caller has the mutex. The calling thread sends as much as the socket takes at once, and the link's
/// thread sends the rest. So no thread blocks in a write, and no frame is cut off.
void TcpLink::send(const Request& request, uint64_t number) {
  const bool idle = out_.empty() || heldUntil_ != TimePoint{};
  heldUntil_ = {};
  out_.queue({encodeRequest(number, request), nullptr});
  if (idle) out_.flush();
  if (idle && !out_.empty()) wakeUp_.signal();
}

/// The caller has the mutex.
void TcpLink::sendSoon(const Request& request, uint64_t number) {
  const bool idle = out_.empty();
  out_.queue({encodeRequest(number, request), nullptr});
  if (!idle) return;
  heldUntil_ = Clock::now() + kBurst;
  wakeUp_.signal();
}

void TcpLink::close() {
  std::map<uint64_t, OnReply> soon;
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
    ended_ = closedFailure();
    calls_.failAll(ended_);
    soon.swap(soon_);
  }
  fail(soon, closedFailure());
  wakeUp_.signal();
  notices_.stop();
  const std::lock_guard lock(joinMutex_);
  if (thread_.joinable()) thread_.join();
}

void TcpLink::run() {
  nameThisThread("control");
  const int fd = connection_.socket.get();
  bool open = receive();  // bytes that came with the welcome
  bool saidGoodbye = false;
  TimePoint hangUpBy = TimePoint::max();
  while (open) {
    bool closing = false;
    bool unsent = false;
    const TimePoint now = Clock::now();
    TimePoint wakeUp = heartbeat_.next();
    {
      const std::lock_guard lock(mutex_);
      closing = closing_;
      if (closing || now >= heldUntil_) heldUntil_ = {};
      if (heldUntil_ == TimePoint{}) {
        out_.flush();
        unsent = !out_.empty();
      } else {
        wakeUp = std::min(wakeUp, heldUntil_);
      }
    }
    if (closing) {
      if (hangUpBy == TimePoint::max()) hangUpBy = now + kHangUpTime;
      if (!unsent && !std::exchange(saidGoodbye, true)) ::shutdown(fd, SHUT_WR);
      if (now >= hangUpBy) break;
      wakeUp = hangUpBy;
    } else if (now >= wakeUp) {
      open = beat(now);
      continue;
    }
    const auto sleep = static_cast<int>(std::chrono::ceil<Milliseconds>(wakeUp - now).count());
    const auto interest = static_cast<short>(unsent ? POLLIN | POLLOUT : POLLIN);
    std::array<pollfd, 2> events{pollfd{fd, interest, 0}, pollfd{wakeUp_.fd(), POLLIN, 0}};
    ::poll(events.data(), events.size(), sleep);
    if (events[1].revents != 0) wakeUp_.clear();
    if ((events[0].revents & ~POLLOUT) != 0) open = receive();
  }
  ::shutdown(fd, SHUT_RDWR);
}

bool TcpLink::beat(TimePoint now) {
  if (const auto silence = heartbeat_.beat(now)) {
    connectionBroke(*silence);
    return false;
  }
  const std::lock_guard lock(mutex_);
  if (out_.empty()) out_.queue({encodeBeat(), nullptr});
  return true;
}

bool TcpLink::receive() {
  std::string reason;
  try {
    const bool open = connection_.in.receive();
    while (std::optional<Frame> frame = connection_.in.next()) handleFrame(std::move(*frame));
    if (open) return true;
    reason = "its connection to rank " + std::to_string(rank_) + " " + connection_.in.reason();
  } catch (const Malformed& malformed) {
    reason = std::string("it sent a malformed message: ") + malformed.what();
  }
  connectionBroke(reason);
  return false;
}

void TcpLink::handleFrame(Frame frame) {
  heard_ = Clock::now();
  if (frame.type == FrameType::kNotice) {
    handleNotice(decodeNotice(frame.payload));
  } else if (frame.type == FrameType::kValue) {
    auto [number, value] = decodeValue(frame.payload);
    const std::lock_guard lock(mutex_);
    if (calls_.awaits(number))
      values_[number].push_back(std::make_shared<const std::string>(std::move(value)));
  } else if (frame.type == FrameType::kReply) {
    Reply reply = decodeReply(frame.payload);
    if (auto values = values_.extract(reply.call)) reply.values = std::move(values.mapped());
    OnReply onReply;
    {
      const std::lock_guard lock(mutex_);
      if (auto soon = soon_.extract(reply.call)) {
        onReply = std::move(soon.mapped());
        heldUntil_ = {};
      } else {
        calls_.answer(std::move(reply));
      }
    }
    if (onReply) onReply(reply);
  } else if (frame.type != FrameType::kBeat) {
    throw Malformed("an unknown kind of message");
  }
}

void TcpLink::handleNotice(ControlNotice notice) {
  if (notice.rank == 0 && !serverGone_) {
    if (notice.kind == ControlNotice::Kind::kLeft) serverGone_ = "rank 0 has left the job";
    if (notice.kind == ControlNotice::Kind::kAborted)
      serverGone_ = "rank 0 failed and ended the job: " + notice.message;
  }
  notices_.push(std::move(notice));
}

void TcpLink::connectionBroke(const std::string& reason) {
  const std::string message = serverGone_ ? *serverGone_ : "rank 0 was lost: " + reason;
  const Failure failure = failureOf(ErrorKind::kPeerLost, message);
  std::map<uint64_t, OnReply> soon;
  {
    const std::lock_guard lock(mutex_);
    if (closing_) return;
    ended_ = failure;
    calls_.failAll(failure);
    soon.swap(soon_);
  }
  fail(soon, failure);
  if (!serverGone_) notices_.push({ControlNotice::Kind::kLost, 0, 0, ErrorKind::kPeerLost, message});
}

}  // namespace hipress::control
