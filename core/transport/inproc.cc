// SPDX-License-Identifier: Apache-2.0
#include "core/transport/inproc.h"

#include <poll.h>

#include <cstring>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "core/base/thread_name.h"
#include "core/transport/bundle.h"
#include "core/transport/mailbox.h"
#include "core/transport/matcher.h"
#include "core/transport/statistics.h"

namespace hipress {
namespace {

class InprocTransport;

/// The reachable ranks. A transport removes itself when it closes, so that no sender uses a closed one.
struct Hub {
  explicit Hub(const InprocOptions& given) : options(given), members(static_cast<size_t>(given.worldSize)) {}

  const InprocOptions options;
  std::mutex mutex;
  std::vector<InprocTransport*> members;
};

class InprocTransport final : public Transport {
 public:
  InprocTransport(std::shared_ptr<Hub> hub, int rank)
      : hub_(std::move(hub)), rank_(rank), brokenLinks_(hub_->members.size()) {
    hub_->members[static_cast<size_t>(rank)] = this;
    thread_ = std::thread([this] { run(); });
  }

  ~InprocTransport() override { close(); }

  std::string name() const override { return "inproc"; }
  int rank() const override { return rank_; }
  int worldSize() const override { return hub_->options.worldSize; }

  void send(SendRequest request) override {
    command([this, request = std::move(request)] {
      if (failure_) return request.onSent(failure_);
      if (auto message = passed(request.peer, request)) deliverTo(std::move(message));
      statistics_.sent(1, request.payload.size());
      request.onSent(nullptr);
    });
  }

  void sendBundle(BundleRequest request) override {
    command([this, request = std::move(request)] {
      if (failure_) return request.onSent(failure_);
      deliverBundle(request);
      size_t bytes = 0;
      for (const auto& message : request.messages) bytes += message.payload.size();
      statistics_.sent(request.messages.size(), bytes);
      request.onSent(nullptr);
    });
  }

  bool usesSockets(int) const override { return true; }  // lets tests see bundles

  void recv(RecvRequest request) override {
    command([this, request = std::move(request)]() mutable {
      if (failure_) return request.onReceived(failure_);
      if (const Failure& broken = brokenLinks_[static_cast<size_t>(request.peer)])
        return request.onReceived(broken);
      // post() moves from the request only if it keeps the request.
      const auto message = matcher_.post(request);
      if (!message) return;
      statistics_.released((*message)->payload.size());
      receive(request, (*message)->header, (*message)->payload);
    });
  }

  void fail(const Failure& failure) override {
    mailbox_.post([this, failure] { giveUp(failure); });
  }

  void onPeerFailure(std::function<void(int, const std::string&)>) override {}

  TransportCounters counters() const override { return statistics_.counters(); }

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
    for (const auto& late : mailbox_.shut()) late();
  }

 private:
  using Arrived = std::shared_ptr<InprocMessage>;

  static Failure closedFailure() {
    return std::make_shared<Error>(ErrorKind::kNotInitialized, "the transport is closed");
  }

  /// After the end of the progress thread the caller runs the command, which reports a failure.
  template <typename Body>
  void command(Body body) {
    static_assert(Mailbox::Command::kFits<Body>);
    Mailbox::Command command(std::move(body));
    if (!mailbox_.post(std::move(command))) command();
  }

  void run() {
    nameThisThread("inproc");
    std::vector<Mailbox::Command> commands;
    while (running_) {
      mailbox_.take(commands);
      for (const auto& each : commands) each();
      commands.clear();  // a sleeping thread keeps no object of a command alive
      if (!running_ || !mailbox_.prepareToSleep()) continue;
      pollfd descriptor{mailbox_.wakeFd(), POLLIN, 0};
      ::poll(&descriptor, 1, -1);
    }
  }

  /// A copy of the message as it leaves; nullptr: the interceptor dropped it. The copy frees the sender's
  /// memory at once, like the eager protocol of a network.
  Arrived passed(int destination, const MessageView& view) const {
    auto message = std::make_shared<InprocMessage>(
        InprocMessage{rank_, destination, view.tag, view.header, {view.payload.begin(), view.payload.end()}});
    const auto& intercept = hub_->options.intercept;
    return !intercept || intercept(*message) ? message : nullptr;
  }

  void deliverBundle(const BundleRequest& request) const {
    std::vector<Arrived> messages;
    std::vector<MessageView> views;
    for (const auto& view : request.messages) {
      const auto message = passed(request.peer, view);
      if (!message) continue;
      views.push_back({message->tag, message->header, message->payload});
      messages.push_back(message);
    }
    if (views.empty()) return;
    auto bundle = std::make_shared<InprocMessage>(InprocMessage{rank_, request.peer, kBundleTag, {}, {}});
    bundle->header = packBundle(views, bundle->payload);
    const auto& intercept = hub_->options.interceptBundle;
    if (!intercept || intercept(*bundle)) deliverTo(std::move(bundle));
  }

  void deliverTo(Arrived message) const {
    const std::lock_guard lock(hub_->mutex);
    auto* destination = hub_->members[static_cast<size_t>(message->destination)];
    if (destination == nullptr) return;
    destination->mailbox_.post([destination, message = std::move(message)] { destination->arrive(message); });
  }

  void arrive(const Arrived& message) {
    if (failure_ || brokenLinks_[static_cast<size_t>(message->source)]) return;
    if (message->tag == kBundleTag) return arriveBundle(*message);
    const MessageKey key{message->source, message->tag};
    if (auto request = matcher_.match(key)) return receive(*request, message->header, message->payload);
    keep(key, message);
  }

  void arriveBundle(const InprocMessage& bundle) {
    try {
      splitBundle(bundle.header, bundle.payload, pieces_);
    } catch (const Error& error) {
      return breakLink(bundle.source, error);
    }
    for (const auto& [tag, header, payload] : pieces_) {
      const MessageKey key{bundle.source, tag};
      if (auto request = matcher_.match(key)) {
        receive(*request, header, payload);
      } else {
        keep(key, std::make_shared<InprocMessage>(
                      InprocMessage{bundle.source, rank_, tag, header, {payload.begin(), payload.end()}}));
      }
    }
  }

  void keep(const MessageKey& key, const Arrived& message) {
    if (matcher_.keep(key, message)) statistics_.kept(message->payload.size());
  }

  void receive(const RecvRequest& request, const MessageHeader& header, std::span<const std::byte> payload) {
    Failure failure;
    try {
      const auto destination = request.onHeader(header, payload.size());
      if (destination.size() != payload.size()) {
        throw corruptPayload("a payload has another size than its receiver expects");
      }
      if (!destination.empty()) std::memcpy(destination.data(), payload.data(), destination.size());
      statistics_.received(payload.size());
    } catch (const Error& error) {
      failure = std::make_shared<Error>(error);
    }
    request.onReceived(failure);
  }

  void breakLink(int peer, const Error& reason) {
    const Failure failure = std::make_shared<Error>(refusedBundle(rank_, peer, reason));
    brokenLinks_[static_cast<size_t>(peer)] = failure;
    for (const auto& request : matcher_.takePosted(peer)) request.onReceived(failure);
  }

  void giveUp(const Failure& failure) {
    if (failure_) return;
    failure_ = failure;
    for (const auto& request : matcher_.takePosted()) request.onReceived(failure);
    for (const auto& message : matcher_.takeArrived()) statistics_.released(message->payload.size());
  }

  const std::shared_ptr<Hub> hub_;
  const int rank_;
  Mailbox mailbox_;
  TransportStatistics statistics_;
  // Only the progress thread uses the members below, and close() after the end of this thread.
  Matcher<Arrived> matcher_;
  std::vector<Failure> brokenLinks_;  // by peer: the failure after a rejected bundle
  std::vector<MessageView> pieces_;   // of the arriving bundle
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
