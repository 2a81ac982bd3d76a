// SPDX-License-Identifier: Apache-2.0
//
// Rank 0's server: one thread that sleeps in epoll until a socket, a deadline or the end of the job wakes it.
// The server moves bytes; the ledger and admission know their meaning.
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/authentication/nonce.h"
#include "core/base/thread_name.h"
#include "core/base/warning.h"
#include "core/control/ledger/ledger.h"
#include "core/control/message.h"
#include "core/control/tcp/admission.h"
#include "core/control/tcp/server_peers.h"
#include "core/control/tcp/tcp_control.h"
#include "core/control/wire/socket.h"

namespace hipress {

namespace {

using namespace control;

/// The time for a stranger to name its rank, and to read the reason of a refusal.
constexpr Milliseconds kHandshakeTime{10000};
/// The time at the end until queued frames are sent and clients have hung up.
constexpr Milliseconds kFarewellTime{1000};
/// The pause before the next try when descriptors have run out.
constexpr Milliseconds kAcceptPause{200};

}  // namespace

class ControlServer::Impl {
 public:
  explicit Impl(const RendezvousOptions& options)
      : job_(jobOf(options)),
        heartbeat_(options.heartbeat),
        ledger_(job_.worldSize, options.stallWarning),
        listener_(openListener(options)),
        port_(portOf(listener_.get())),
        poller_(::epoll_create1(EPOLL_CLOEXEC)),
        pid_(::getpid()) {
    if (poller_.get() < 0) throw transportError("no epoll descriptor: " + errorText(errno));
    watch(listener_.get(), EPOLLIN, EPOLL_CTL_ADD);
    watch(wakeUp_.fd(), EPOLLIN, EPOLL_CTL_ADD);
    thread_ = std::thread([this] { serve(); });
  }

  void stop() {
    wakeUp_.signal();
    thread_.join();
  }

  int port() const { return port_; }
  bool inForkedChild() const { return ::getpid() != pid_; }

 private:
  void watch(int fd, uint32_t events, int operation) {
    epoll_event event{};
    event.events = events;
    event.data.fd = fd;
    ::epoll_ctl(poller_.get(), operation, fd, &event);
  }

  void serve() {
    nameThisThread("server");
    std::vector<epoll_event> events(64);
    while (!stopAt_ || (!peers_.empty() && Clock::now() < *stopAt_)) {
      const int count =
          ::epoll_wait(poller_.get(), events.data(), static_cast<int>(events.size()), sleepTime());
      for (int i = 0; i < count; ++i) handleEvent(events[static_cast<size_t>(i)]);
      const TimePoint now = Clock::now();
      deliver(ledger_.expire(now));
      for (const std::string& stall : ledger_.stalls(now)) warn(0, stall);
      peers_.dropStrangers(now);
      if (!stopAt_) beat(now);
      if (acceptAgainAt_ && *acceptAgainAt_ <= now && !stopAt_) {
        acceptAgainAt_.reset();
        watch(listener_.get(), EPOLLIN, EPOLL_CTL_MOD);
      }
      flushQueued();
    }
  }

  void handleEvent(const epoll_event& event) {
    const int fd = event.data.fd;
    if (fd == wakeUp_.fd()) {
      wakeUp_.clear();
      beginFarewell();
    } else if (fd == listener_.get()) {
      if (!stopAt_) acceptStrangers();
    } else if (Peer* peer = peers_.find(fd)) {
      if ((event.events & EPOLLOUT) != 0) flush(*peer);
      if ((event.events & ~static_cast<uint32_t>(EPOLLOUT)) != 0) receive(*peer);
    }
  }

  int sleepTime() const {
    std::optional<TimePoint> next = ledger_.nextDeadline();
    if (stopAt_) next = earlier(next, *stopAt_);
    if (acceptAgainAt_) next = earlier(next, *acceptAgainAt_);
    if (const auto deadline = peers_.nextDeadline(); deadline && !stopAt_) next = earlier(next, *deadline);
    if (!next) return -1;
    const auto left =
        std::chrono::ceil<Milliseconds>(*next - Clock::now()).count();  // floor would spin at the end
    return static_cast<int>(std::clamp<int64_t>(left, 0, 3600'000));
  }

  void acceptStrangers() {
    for (;;) {
      const int fd = ::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
      if (fd < 0) {
        if (errno == EINTR || errno == ECONNABORTED) continue;
        if ((errno == EMFILE || errno == ENFILE) && peers_.dropOldestStranger()) continue;
        if (errno != EAGAIN &&
            errno != EWOULDBLOCK) {  // no descriptors: the listener would wake this thread again at once
          acceptAgainAt_ = Clock::now() + kAcceptPause;
          watch(listener_.get(), 0, EPOLL_CTL_MOD);
        }
        return;
      }
      configureConnection(fd);
      peers_.add(fd, Clock::now() + kHandshakeTime);
      watch(fd, EPOLLIN, EPOLL_CTL_ADD);
    }
  }

  void receive(Peer& peer) {
    const bool open = peer.in.receive();
    try {
      while (std::optional<Frame> frame = peer.in.next()) {
        if (!peer.refused && !stopAt_) handleFrame(peer, std::move(*frame));
      }
    } catch (const Malformed& malformed) {
      return drop(peer, std::string("it sent a malformed message: ") + malformed.what());
    }
    if (!open) drop(peer, "its connection to rank 0 " + peer.in.reason());
  }

  void drop(Peer& peer, const std::string& reason) {
    const int rank = peer.rank;
    peer.out.flush();
    peers_.erase(peer);
    if (rank >= 0 && !stopAt_) deliver(ledger_.disconnect(rank, reason));
  }

  void handleFrame(Peer& peer, Frame frame) {
    if (peer.stranger()) return peer.asked ? admit(peer, frame) : ask(peer, std::move(frame));
    if (frame.type == FrameType::kBeat) return;
    auto [call, request] = decodeRequest(frame);
    deliver(ledger_.handle(peer.rank, call, std::move(request), Clock::now()));
  }

  void beat(TimePoint now) {
    for (auto entry = peers_.all().begin(); entry != peers_.all().end();) {
      Peer& peer = (entry++)->second;  // drop() may erase the entry
      if (!peer.heartbeat || peer.heartbeat->next() > now) continue;
      if (const auto silence = peer.heartbeat->beat(now)) {
        drop(peer, *silence);
      } else if (peer.out.empty()) {
        send(peer, {encodeBeat(), nullptr});
      }
    }
  }

  void ask(Peer& peer, Frame frame) {
    if (frame.type != FrameType::kHello) throw Malformed("it did not say hello");
    Hello hello = decodeHello(frame.payload);
    if (const Failure failure = refusalOfVersion(hello)) return refuse(peer, failure);
    peer.asked = {std::move(hello), {std::move(frame.payload), freshNonce()}};
    send(peer, {encodeText(FrameType::kChallenge, peer.asked->greetings.answer), nullptr});
  }

  void refuse(Peer& peer, const Failure& failure) {
    send(peer, {encodeRefused(failure), nullptr});
    peer.refused = true;  // stays until it hangs up: an earlier close could destroy the reason in flight
  }

  void admit(Peer& peer, const Frame& frame) {
    if (frame.type != FrameType::kProof) throw Malformed("it did not prove that it knows the token");
    const auto& [hello, greetings] = *peer.asked;
    const auto failure = refusal(hello, decodeText(frame.payload), greetings, job_, ledger_);
    if (failure) return refuse(peer, failure);
    peers_.introduce(peer, hello.rank, heartbeat_);
    send(peer, {encodeWelcome({job_.worldSize, proofOfServer(job_.token, greetings)}), nullptr});
    deliver(ledger_.arrive(hello.rank, "host " + hello.host + ", pid " + std::to_string(hello.pid)));
  }

  void deliver(const Outbox& outbox) {
    if (ledger_.over()) {
      // Comes before the reply to the last goodbye, because its sender may start the next job at this port.
      listener_ = Socket();
      acceptAgainAt_.reset();
    }
    for (const Outgoing& out : outbox) {
      Peer* peer = peers_.ofRank(out.rank);
      if (peer == nullptr) continue;
      if (const auto* reply = std::get_if<Reply>(&out.content)) {
        for (const SharedValue& value : reply->values) send(*peer, encodeValue(reply->call, value));
        send(*peer, {encodeReply(*reply), nullptr});
      } else {
        send(*peer, {encodeNotice(std::get<ControlNotice>(out.content)), nullptr});
      }
    }
  }

  /// Frames for a peer leave together when all events have been handled: a burst of questions gets its
  /// answers in few packets.
  void send(Peer& peer, FrameBytes frame) {
    peer.out.queue(std::move(frame));
    if (!peer.waitsForSpace) queued_.insert(peer.socket.get());
  }

  void flushQueued() {
    for (const int fd : std::exchange(queued_, {})) {
      if (Peer* peer = peers_.find(fd)) flush(*peer);
    }
  }

  void flush(Peer& peer) {
    peer.out.flush();
    const bool full = !peer.out.empty();
    if (peer.waitsForSpace == full) return;
    peer.waitsForSpace = full;
    watch(peer.socket.get(), full ? EPOLLIN | EPOLLOUT : EPOLLIN, EPOLL_CTL_MOD);
    if (stopAt_ && !full) ::shutdown(peer.socket.get(), SHUT_WR);
  }

  /// Sends the queued frames and gives the clients a moment to hang up: a close at once could destroy the
  /// last notices in flight.
  void beginFarewell() {
    flushQueued();
    stopAt_ = Clock::now() + kFarewellTime;
    watch(listener_.get(), 0, EPOLL_CTL_MOD);
    peers_.dropStrangers(TimePoint::max());
    for (auto& [fd, peer] : peers_.all()) {
      if (peer.out.empty()) ::shutdown(fd, SHUT_WR);
    }
  }

  const JobIdentity job_;
  const HeartbeatOptions heartbeat_;
  Ledger ledger_;
  Socket listener_;
  const int port_;
  UniqueFd poller_;
  WakeUp wakeUp_;
  ServerPeers peers_;
  std::set<int> queued_;  ///< Descriptors of peers with new frames.
  std::optional<TimePoint> stopAt_;
  std::optional<TimePoint> acceptAgainAt_;
  const int pid_;
  std::thread thread_;
};

ControlServer::ControlServer(const RendezvousOptions& options) : impl_(std::make_unique<Impl>(options)) {}

ControlServer::~ControlServer() {
  if (impl_->inForkedChild()) {
    static_cast<void>(impl_.release());  // its thread is in the parent, so there is nothing to stop
  } else {
    impl_->stop();
  }
}

int ControlServer::port() const {
  return impl_->port();
}

}  // namespace hipress
