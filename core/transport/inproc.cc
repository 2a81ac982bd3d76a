// SPDX-License-Identifier: Apache-2.0
#include "core/transport/inproc.h"

#include <poll.h>

#include <cstring>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "core/transport/mailbox.h"
#include "core/transport/matcher.h"

namespace hipress {
namespace {

class InprocTransport;

/// Which rank is reachable. A transport takes itself out when it closes, so senders never touch a dead one.
struct Hub {
  explicit Hub(const InprocOptions& given) : options(given), members(static_cast<size_t>(given.worldSize)) {}

  const InprocOptions options;
  std::mutex mutex;
  std::vector<InprocTransport*> members;
};

class InprocTransport final : public Transport {
 public:
  InprocTransport(std::shared_ptr<Hub> hub, int rank) : hub_(std::move(hub)), rank_(rank) {
    hub_->members[static_cast<size_t>(rank)] = this;
    thread_ = std::thread([this] { run(); });
  }

  ~InprocTransport() override { close(); }

  std::string name() const override { return "inproc"; }
  int rank() const override { return rank_; }
  int worldSize() const override { return hub_->options.worldSize; }

  void send(SendRequest request) override {
    InprocMessage message{
        rank_, request.peer, request.tag, request.header, {request.payload.begin(), request.payload.end()}};
    // The payload is copied: the sender's memory is free at once, as with a network's eager protocol.
    const size_t bytes = request.payload.size() + kMessageHeaderBytes;
    auto onSent = std::make_shared<std::function<void(const Failure&)>>(std::move(request.onSent));
    const bool taken =
        mailbox_.post([this, bytes, onSent, shared = std::make_shared<InprocMessage>(std::move(message))] {
          if (failure_) return (*onSent)(failure_);
          const bool deliver = !hub_->options.intercept || hub_->options.intercept(*shared);
          count([&](TransportCounters& counters) {
            counters.bytesSent += bytes;
            ++counters.messagesSent;
          });
          if (deliver) deliverTo(shared);
          (*onSent)(nullptr);
        });
    if (!taken) (*onSent)(closedFailure());
  }

  void recv(RecvRequest request) override {
    auto shared = std::make_shared<RecvRequest>(std::move(request));
    const bool taken = mailbox_.post([this, shared] {
      if (failure_) return shared->onReceived(failure_);
      // post() moves from the request only when it keeps it.
      if (auto message = matcher_.post(*shared)) receive(*shared, *message);
    });
    if (!taken) shared->onReceived(closedFailure());
  }

  void fail(const Failure& failure) override {
    mailbox_.post([this, failure] { giveUp(failure); });
  }

  void onPeerFailure(std::function<void(int, const std::string&)>) override {}

  TransportCounters counters() const override {
    const std::lock_guard lock(countersMutex_);
    return counters_;
  }

  void close() override {
    {
      const std::lock_guard lock(hub_->mutex);
      hub_->members[static_cast<size_t>(rank_)] = nullptr;
    }
    if (!thread_.joinable()) return;
    mailbox_.post([this] {
      giveUp(closedFailure());
      running_ = false;
    });
    thread_.join();
    for (auto& command : mailbox_.shut()) command();
  }

 private:
  using Arrived = std::shared_ptr<InprocMessage>;

  static Failure closedFailure() {
    return std::make_shared<Error>(ErrorKind::kNotInitialized, "the transport is closed");
  }

  void run() {
    while (running_) {
      for (auto& command : mailbox_.take()) command();
      if (!running_) break;
      pollfd descriptor{mailbox_.wakeFd(), POLLIN, 0};
      ::poll(&descriptor, 1, -1);
    }
  }

  void deliverTo(const Arrived& message) {
    const std::lock_guard lock(hub_->mutex);
    auto* destination = hub_->members[static_cast<size_t>(message->destination)];
    if (destination == nullptr) return;
    destination->mailbox_.post([destination, message] { destination->arrive(message); });
  }

  void arrive(const Arrived& message) {
    if (failure_) return;
    const MessageKey key{message->source, message->tag};
    if (auto request = matcher_.match(key)) return receive(*request, message);
    matcher_.keep(key, message);
  }

  void receive(RecvRequest& request, const Arrived& message) {
    Failure failure;
    try {
      const auto destination = request.onHeader(message->header, message->payload.size());
      if (destination.size() != message->payload.size()) {
        throw corruptPayload("a payload has another size than its receiver expects");
      }
      if (!destination.empty()) std::memcpy(destination.data(), message->payload.data(), destination.size());
      count([&](TransportCounters& counters) {
        counters.bytesReceived += message->payload.size() + kMessageHeaderBytes;
        ++counters.messagesReceived;
      });
    } catch (const Error& error) {
      failure = std::make_shared<Error>(error);
    }
    request.onReceived(failure);
  }

  void giveUp(const Failure& failure) {
    if (failure_) return;
    failure_ = failure;
    for (auto& request : matcher_.takePosted()) request.onReceived(failure);
    matcher_.takeArrived();
  }

  template <typename Change>
  void count(Change change) {
    const std::lock_guard lock(countersMutex_);
    change(counters_);
  }

  const std::shared_ptr<Hub> hub_;
  const int rank_;
  Mailbox mailbox_;
  mutable std::mutex countersMutex_;
  TransportCounters counters_;
  // Below: used by the progress thread only, and by close() after it has ended.
  Matcher<Arrived> matcher_;
  Failure failure_;
  bool running_ = true;
  std::thread thread_;
};

}  // namespace

std::vector<std::unique_ptr<Transport>> makeInprocTransports(const InprocOptions& options) {
  if (options.worldSize < 1) throw invalidArgument("a world has at least one rank");
  auto hub = std::make_shared<Hub>(options);
  std::vector<std::unique_ptr<Transport>> transports;
  for (int rank = 0; rank < options.worldSize; ++rank) {
    transports.push_back(std::make_unique<InprocTransport>(hub, rank));
  }
  return transports;
}

}  // namespace hipress
