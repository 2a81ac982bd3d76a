// SPDX-License-Identifier: Apache-2.0
//
// All UCX calls are made by one thread per rank, the progress thread: other threads leave commands in a
// mailbox. It sleeps in poll() on UCX's wake-up descriptor and the mailbox's.
#include "core/transport/ucx/ucx_transport.h"

#include <poll.h>
#include <ucp/api/ucp.h>

#include <thread>
#include <utility>
#include <vector>

#include "core/control/network_interface.h"
#include "core/thread_name.h"
#include "core/transport/mailbox.h"
#include "core/transport/statistics.h"
#include "core/transport/ucx/ucx_context.h"
#include "core/transport/ucx/ucx_inbox.h"
#include "core/transport/ucx/ucx_links.h"
#include "core/transport/ucx/ucx_outbox.h"

namespace hipress {
namespace {

/// The interface that leads to the others. UCX would only say that there is no device if it cannot be used.
std::string deviceOf(int rank, const std::string& localAddress) {
  if (localAddress.empty()) return "";
  const NetworkInterface found = interfaceOf(localAddress);
  const std::string who = "rank " + std::to_string(rank) + ": ";
  if (found.name.empty()) {
    throw transportError(who + "no network interface has the address " + localAddress +
                         " any more, through which this rank had met the others: see `ip address`");
  }
  if (!found.problem.empty()) {
    throw transportError(who + "the network interface " + found.name + " (" + localAddress +
                         "), through which this rank had met the others, " + found.problem +
                         ": repair it (`ip link show " + found.name +
                         "`), or let the ranks meet at an address that another one leads to");
  }
  return found.name;
}

class UcxTransport final : public Transport {
 public:
  UcxTransport(ControlPlane& control, const UcxOptions& options)
      : rank_(control.rank()),
        worldSize_(control.worldSize()),
        worker_(deviceOf(rank_, options.localAddress), options.timeout),
        inbox_(rank_, worldSize_, worker_, statistics_),
        links_(control, worker_, options.timeout,
               [this](int peer, const std::string& reason) { peerFailed(peer, reason); }),
        outbox_(rank_, links_, statistics_) {
    thread_ = std::thread([this] { run(); });
  }

  ~UcxTransport() override { close(); }

  std::string name() const override { return "ucx"; }
  int rank() const override { return rank_; }
  int worldSize() const override { return worldSize_; }

  void send(SendRequest request) override {
    command([this, request = std::move(request)]() mutable { outbox_.send(std::move(request)); });
  }

  void sendBundle(BundleRequest request) override {
    command([this, request = std::move(request)]() mutable { outbox_.sendBundle(std::move(request)); });
  }

  bool usesSockets(int peer) const override { return links_.usesSockets(peer); }

  void recv(RecvRequest request) override {
    command([this, request = std::move(request)]() mutable { inbox_.recv(std::move(request)); });
  }

  void fail(const Failure& failure) override {
    mailbox_.post([this, failure] { giveUp(failure); });
  }

  void onPeerFailure(std::function<void(int, const std::string&)> handler) override {
    mailbox_.post([this, handler = std::move(handler)] { onPeerFailure_ = handler; });
  }

  TransportCounters counters() const override { return statistics_.counters(); }

  void close() override {
    if (!thread_.joinable()) return;
    mailbox_.post([this] {
      giveUp(std::make_shared<Error>(ErrorKind::kNotInitialized, "the transport is closed"));
      running_ = false;
    });
    thread_.join();
    for (const auto& late : mailbox_.shut()) late();
  }

 private:
  /// Once the progress thread has ended, whoever calls runs the command: there is a failure to hand over.
  template <typename Body>
  void command(Body body) {
    static_assert(Mailbox::Command::kFits<Body>);
    Mailbox::Command command(std::move(body));
    if (!mailbox_.post(std::move(command))) command();
  }

  void run() {
    nameThisThread("network");
    std::vector<Mailbox::Command> commands;
    while (running_) {
      mailbox_.take(commands);
      for (const auto& each : commands) each();
      bool busy = !commands.empty();
      commands.clear();  // nothing is kept alive while this thread sleeps
      while (ucp_worker_progress(worker_.handle()) != 0) busy = true;
      if (busy || !mailbox_.prepareToSleep()) continue;
      const ucs_status_t armed = ucp_worker_arm(worker_.handle());
      if (armed == UCS_ERR_BUSY) continue;
      pollfd descriptors[2] = {{mailbox_.wakeFd(), POLLIN, 0}, {worker_.wakeFd(), POLLIN, 0}};
      ::poll(descriptors, 2, -1);
    }
    finish();
  }

  void peerFailed(int peer, const std::string& reason) {
    if (!failed_ && onPeerFailure_) onPeerFailure_(peer, reason);
  }

  void giveUp(const Failure& failure) {
    if (failed_) return;
    failed_ = true;
    outbox_.fail(failure);
    inbox_.fail(failure);
  }

  /// The last act of the progress thread. UCX is torn down first: nothing touches a payload after its
  /// callback. It drops what is in flight, waits for no peer, and lets go of everything but a few requests.
  void finish() {
    inbox_.release();
    worker_.destroy();
    outbox_.finish();
    inbox_.finish();
  }

  const int rank_;
  const int worldSize_;
  TransportStatistics statistics_;
  Mailbox mailbox_;
  // Below: used by the progress thread only, once it runs.
  std::function<void(int, const std::string&)> onPeerFailure_;
  UcxWorker worker_;
  UcxInbox inbox_;
  UcxLinks links_;
  UcxOutbox outbox_;
  bool failed_ = false;
  bool running_ = true;
  std::thread thread_;
};

}  // namespace

std::unique_ptr<Transport> makeUcxTransport(ControlPlane& control, const UcxOptions& options) {
  return std::make_unique<UcxTransport>(control, options);
}

}  // namespace hipress
