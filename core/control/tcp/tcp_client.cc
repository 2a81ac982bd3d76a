// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "core/control/tcp/tcp_control.h"
#include "core/control/tcp/tcp_link.h"

namespace hipress {
namespace {

using namespace control;

/// Rank 0 checks the deadlines. A rank gives up by itself only if rank 0 is silent for this much longer.
constexpr Milliseconds kGrace{2000};

/// Bytes of the reason with which a rank leaves.
constexpr size_t kMaxReason = 4096;

Milliseconds withGrace(Milliseconds timeout) {
  return clampTimeout(timeout) + kGrace;
}

class TcpControl final : public ControlPlane {
 public:
  TcpControl(Connection connection, const RendezvousOptions& options)
      : link_(std::make_unique<TcpLink>(std::move(connection), options.rank, options.heartbeat,
                                        options.stallWarning)),
        rank_(options.rank),
        worldSize_(options.worldSize),
        token_(options.token),
        pid_(::getpid()) {}

  ~TcpControl() override {
    if (inForkedChild())
      static_cast<void>(link_.release());  // its threads are in the parent, so this process cannot end them
  }

  int rank() const override { return rank_; }
  int worldSize() const override { return worldSize_; }
  Digest deriveKey(std::string_view purpose) const override { return hmacSha256(token_, purpose); }
  void onNotice(NoticeHandler handler) override { link_->notices().setHandler(std::move(handler)); }

  std::vector<std::string> allgather(const std::string& key, const std::string& value, Milliseconds timeout,
                                     const ProcessSet& among) override {
    checkSize("the key", key.size(), kMaxText);
    checkSize("the value", value.size(), kMaxValue);
    const AllgatherRequest request{key, value, timeout, false, among};
    return valuesOf(call(request, withGrace(timeout), "'" + key + "'"));
  }

  std::vector<std::string> alltoall(const std::string& key, const std::vector<std::string>& values,
                                    Milliseconds timeout) override {
    const AllgatherRequest request = alltoallRequest(key, values, timeout, worldSize_);
    return partsOf(call(request, withGrace(timeout), "'" + key + "'"), worldSize_);
  }

  std::vector<uint32_t> declare(std::vector<Declaration> tensors, Milliseconds timeout,
                                const ProcessSet& among) override {
    if (tensors.empty()) return {};
    checkSizes(tensors);
    const size_t count = tensors.size();
    std::string what = "the number of tensor '" + tensors.front().name + "'";
    if (count > 1) what += " and of " + std::to_string(count - 1) + " more";
    return numbersOf(call(DeclareRequest{std::move(tensors), among}, withGrace(timeout), what), count);
  }

  void declareSoon(std::vector<Declaration> tensors, const ProcessSet& among,
                   OnDeclared onDeclared) override {
    checkNotForked();
    checkSizes(tensors);
    const size_t count = tensors.size();
    link_->callSoon(
        DeclareRequest{std::move(tensors), among},
        [count, onDeclared = std::move(onDeclared)](const Reply& reply) { tell(reply, count, onDeclared); });
  }

  uint32_t ask(const std::string& service, const std::string& question, Milliseconds timeout) override {
    checkSize("the question", question.size(), kMaxText);
    return answerOf(call(AskRequest{service, question}, timeout, "an answer of '" + service + "'"));
  }

  JoinRound join() override {
    return roundOf(call(JoinRequest{}, Milliseconds::max(), "the other ranks' join()"));
  }

  void demand(int rank, uint32_t tensor, uint32_t step, const std::string& text) override {
    if (!inForkedChild()) link_->post(DemandRequest{rank, tensor, step, text});
  }

  void excuse(int rank, uint32_t tensor, const std::string& text) override {
    if (!inForkedChild()) link_->post(DemandRequest{rank, tensor, 0, text, true});
  }

  void abort(ErrorKind error, const std::string& message) override {
    if (!inForkedChild()) link_->post(AbortRequest{error, message.substr(0, kMaxText)});
  }

  void leave(Milliseconds linger, const std::string& reason) override {
    {
      const std::lock_guard lock(mutex_);
      if (left_) return;
    }
    try {
      call(LeaveRequest{linger, reason.substr(0, kMaxReason)}, withGrace(linger), "its goodbye");
      link_->notices().awaitDelivery();
    } catch (const Error& error) {
      // Without rank 0 no rank gets the goodbye.
      if (error.kind() == ErrorKind::kNotInitialized) throw;
    }
    const std::lock_guard lock(mutex_);
    left_ = true;
  }

  void close() override {
    if (!inForkedChild()) link_->close();
  }

 private:
  bool inForkedChild() const { return ::getpid() != pid_; }

  void checkNotForked() const {
    if (inForkedChild())
      throw Error(ErrorKind::kNotInitialized, "a forked process cannot use the control plane of its parent");
  }

  Reply call(const Request& request, Milliseconds silence, const std::string& what) {
    checkNotForked();
    return link_->call(request, silence, what);
  }

  std::unique_ptr<TcpLink> link_;
  const int rank_;
  const int worldSize_;
  const std::string token_;
  const pid_t pid_;
  std::mutex mutex_;
  bool left_ = false;
};

}  // namespace

std::unique_ptr<ControlPlane> connectControl(const RendezvousOptions& options, std::string* localAddress) {
  Connection connection = connectToServer(options);
  if (localAddress != nullptr) *localAddress = localAddressOf(connection.socket.get());
  return std::make_unique<TcpControl>(std::move(connection), options);
}

}  // namespace hipress
