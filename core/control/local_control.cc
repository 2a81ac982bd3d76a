// SPDX-License-Identifier: Apache-2.0
#include "core/control/local_control.h"

#include <memory>
#include <mutex>
#include <utility>

#include "core/authentication/nonce.h"
#include "core/control/ledger/ledger.h"
#include "core/control/pending_call.h"
#include "core/control/tcp/notice_queue.h"

namespace hipress {
namespace {

using namespace control;

/// The connection of one rank with the hub.
struct Port {
  NoticeQueue notices;
  PendingCalls calls;  // guarded by the hub's mutex, like the members below
  bool closed = false;
  bool left = false;
};

class Hub {
 public:
  explicit Hub(int worldSize) : ledger(worldSize) {
    for (int rank = 0; rank < worldSize; ++rank) {
      ports.push_back(std::make_shared<Port>());
      ledger.arrive(rank, "a thread of this process");
    }
  }

  /// The caller has the mutex.
  void deliver(Outbox outbox) {
    for (Outgoing& out : outbox) {
      Port& port = *ports[static_cast<size_t>(out.rank)];
      if (auto* reply = std::get_if<Reply>(&out.content)) {
        port.calls.answer(std::move(*reply));
      } else {
        port.notices.push(std::move(std::get<ControlNotice>(out.content)));
      }
    }
  }

  const std::string token = freshNonce();
  std::mutex mutex;
  Ledger ledger;
  std::vector<std::shared_ptr<Port>> ports;
};

class LocalControl final : public ControlPlane {
 public:
  LocalControl(std::shared_ptr<Hub> hub, int rank, int worldSize)
      : hub_(std::move(hub)),
        port_(hub_->ports[static_cast<size_t>(rank)]),
        rank_(rank),
        worldSize_(worldSize) {}

  ~LocalControl() override { close(); }

  int rank() const override { return rank_; }
  int worldSize() const override { return worldSize_; }
  Digest deriveKey(std::string_view purpose) const override { return hmacSha256(hub_->token, purpose); }
  void onNotice(NoticeHandler handler) override { port_->notices.setHandler(std::move(handler)); }

  std::vector<std::string> allgather(const std::string& key, const std::string& value, Milliseconds timeout,
                                     const ProcessSet& among) override {
    checkSize("the key", key.size(), kMaxText);
    checkSize("the value", value.size(), kMaxValue);
    return valuesOf(call(AllgatherRequest{key, value, timeout, false, among}));
  }

  std::vector<std::string> alltoall(const std::string& key, const std::vector<std::string>& values,
                                    Milliseconds timeout) override {
    return partsOf(call(alltoallRequest(key, values, timeout, worldSize_)), worldSize_);
  }

  std::vector<uint32_t> declare(std::vector<Declaration> tensors, Milliseconds,
                                const ProcessSet& among) override {
    checkSizes(tensors);
    const size_t count = tensors.size();
    return numbersOf(call(DeclareRequest{std::move(tensors), among}), count);
  }

  /// The ledger of one process answers within the call.
  void declareSoon(std::vector<Declaration> tensors, const ProcessSet& among,
                   OnDeclared onDeclared) override {
    checkSizes(tensors);
    std::vector<uint32_t> numbers;
    Failure failure;
    try {
      const size_t count = tensors.size();
      numbers = numbersOf(call(DeclareRequest{std::move(tensors), among}), count);
    } catch (const Error& error) {
      failure = failureOf(error);
    }
    onDeclared(failure, numbers);
  }

  uint32_t ask(const std::string& service, const std::string& question, Milliseconds) override {
    checkSize("the question", question.size(), kMaxText);
    return answerOf(call(AskRequest{service, question}));
  }

  JoinRound join() override { return roundOf(call(JoinRequest{})); }

  void demand(int rank, uint32_t tensor, uint32_t step, const std::string& text) override {
    post({rank, tensor, step, text});
  }

  void excuse(int rank, uint32_t tensor, const std::string& text) override {
    post({rank, tensor, 0, text, true});
  }

  void abort(ErrorKind error, const std::string& message) override {
    const std::lock_guard lock(hub_->mutex);
    if (port_->closed) return;
    hub_->deliver(
        hub_->ledger.handle(rank_, 0, AbortRequest{error, message.substr(0, kMaxText)}, Clock::now()));
  }

  void leave(Milliseconds linger, const std::string& reason) override {
    {
      const std::lock_guard lock(hub_->mutex);
      if (port_->closed && port_->left) return;
      port_->left |= !port_->closed;
    }
    call(LeaveRequest{linger, reason});
    port_->notices.awaitDelivery();
  }

  void close() override {
    {
      const std::lock_guard lock(hub_->mutex);
      if (!port_->closed) {
        port_->closed = true;
        hub_->deliver(hub_->ledger.disconnect(rank_, "it was closed without a goodbye"));
        port_->calls.failAll(closedFailure());
      }
    }
    port_->notices.stop();
  }

 private:
  void post(DemandRequest request) {
    const std::lock_guard lock(hub_->mutex);
    if (port_->closed) return;
    hub_->deliver(hub_->ledger.handle(rank_, 0, std::move(request), Clock::now()));
  }

  Reply call(Request request) {
    std::unique_lock lock(hub_->mutex);
    if (port_->closed) throw Error(*closedFailure());
    PendingCall pending;
    const uint64_t number = port_->calls.add(pending);
    hub_->deliver(hub_->ledger.handle(rank_, number, std::move(request), Clock::now()));
    // The waiting threads keep the time for all ranks. A new earliest deadline always belongs to a thread
    // that waits here.
    while (!pending.reply) {
      const std::optional<TimePoint> deadline = hub_->ledger.nextDeadline();
      if (!deadline) {
        pending.answered.wait(lock);
      } else if (pending.answered.wait_until(lock, *deadline) == std::cv_status::timeout) {
        hub_->deliver(hub_->ledger.expire(Clock::now()));
      }
    }
    port_->calls.remove(number);
    return checked(*pending.reply);
  }

  const std::shared_ptr<Hub> hub_;
  const std::shared_ptr<Port> port_;
  const int rank_;
  const int worldSize_;
};

}  // namespace

std::vector<std::unique_ptr<ControlPlane>> makeLocalControl(int worldSize) {
  if (worldSize < 1)
    throw invalidArgument("the world size is " + std::to_string(worldSize) + "; it must be at least 1");
  const auto hub = std::make_shared<Hub>(worldSize);
  std::vector<std::unique_ptr<ControlPlane>> planes;
  for (int rank = 0; rank < worldSize; ++rank) {
    planes.push_back(std::make_unique<LocalControl>(hub, rank, worldSize));
  }
  return planes;
}

}  // namespace hipress
