// SPDX-License-Identifier: Apache-2.0
//
// One thread per rank, the progress thread, makes all UCX calls. Other threads leave commands in a mailbox.
// The progress thread sleeps on UCX's wake-up descriptor and the mailbox's.
#include "core/transport/ucx/ucx_transport.h"

#include <ucp/api/ucp.h>

#include <chrono>
#include <exception>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/thread_name.h"
#include "core/base/warning.h"
#include "core/control/wire/host_traffic.h"
#include "core/control/wire/network_interface.h"
#include "core/transport/mailbox.h"
#include "core/transport/statistics.h"
#include "core/transport/ucx/progress_sleep.h"
#include "core/transport/ucx/shared_memory.h"
#include "core/transport/ucx/trust/data_port.h"
#include "core/transport/ucx/trust/link_check.h"
#include "core/transport/ucx/trust/shared_segments.h"
#include "core/transport/ucx/ucx_addresses.h"
#include "core/transport/ucx/ucx_context.h"
#include "core/transport/ucx/ucx_inbox.h"
#include "core/transport/ucx/ucx_links.h"
#include "core/transport/ucx/ucx_outbox.h"

namespace hipress {
namespace {

/// The devices that UCX may use. Without the user's choice: the interface of the control connection. If that
/// is unusable, this function says why; UCX would only say that there is no device.
std::string devicesOf(int rank, const UcxOptions& options) {
  const std::string& localAddress = options.localAddress;
  if (!options.devices.empty() || localAddress.empty()) return options.devices;
  const NetworkInterface found = interfaceOf(localAddress);
  const std::string who = "rank " + std::to_string(rank) + ": ";
  if (found.name.empty()) {
    throw transportError(who + "no network interface has the address " + localAddress +
                         " any more, by which this rank is connected with rank 0: see `ip address`");
  }
  if (!found.problem.empty()) {
    throw transportError(who + "the network interface " + found.name + " (" + localAddress +
                         "), by which this rank is connected with rank 0, " + found.problem +
                         ": repair it (`ip link show " + found.name +
                         "`), or let the ranks meet at an address of another interface");
  }
  return found.name;
}

/// The time between two checks for strangers. An idle rank wakes up as often.
constexpr Milliseconds kBetweenLooks{1000};

/// The parts that a rank needs before it connects with the other ranks.
struct Start {
  SharedMemoryKind memory;
  std::unique_ptr<UcxWorker> worker;
  DataPort port;
  std::vector<UcxAddress> addresses;
  LinkSeals seals;
};

Start startOf(ControlPlane& control, const UcxOptions& options) {
  const SharedMemoryKind memory = agreeOnSharedMemory(control, options.timeout);
  const std::vector<int> before = listeningSockets();
  auto worker = std::make_unique<UcxWorker>(devicesOf(control.rank(), options), options.timeout, memory);
  DataPort port(before, worker->address());
  auto addresses = exchangeAddresses(control, *worker, options.timeout);
  LinkSeals seals = sealsOf(control, noncesOf(addresses));
  return {memory, std::move(worker), std::move(port), std::move(addresses), std::move(seals)};
}

class UcxTransport final : public Transport {
 public:
  UcxTransport(ControlPlane& control, const UcxOptions& options, Start start)
      : rank_(control.rank()),
        worldSize_(control.worldSize()),
        makesSystemV_(start.memory == SharedMemoryKind::kSystemV ||
                      start.memory == SharedMemoryKind::kUsersChoice),
        check_(std::make_shared<LinkCheck>(rank_, worldSize_)),
        worker_(std::move(start.worker)),
        sleep_(mailbox_.wakeFd(), worker_->wakeFd(), kBetweenLooks),
        port_(std::move(start.port)),
        inbox_(rank_, *worker_, std::move(start.seals.incoming), statistics_, listener()),
        links_(rank_, *worker_, start.addresses,
               [this](int peer, const std::string& reason) { peerFailed(peer, reason); }),
        outbox_(rank_, links_, std::move(start.seals.outgoing), statistics_) {
    if (makesSystemV_) keepSegmentsPrivate();
    thread_ = std::thread([this] { run(); });
    try {
      meet(control, options);
    } catch (...) {
      close();
      throw;
    }
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
  uint64_t acknowledgedBytes() const override { return control::acknowledgedByOtherHosts(); }

  /// A sleeping thread needs no wake-up for a receive: the message of the receive will wake it.
  void recv(RecvRequest request) override {
    command([this, request = std::move(request)]() mutable { inbox_.recv(std::move(request)); },
            &Mailbox::postPatiently);
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
      giveUp(failureOf(ErrorKind::kNotInitialized, "the transport is closed"));
      running_ = false;
    });
    thread_.join();
    for (const auto& late : mailbox_.shut()) late();
  }

 private:
  UcxInboxListener listener() {
    return {[this](int peer, const UcxEnvelope& envelope) {
              if (envelope.tag == kConsumedTag) return outbox_.consumed(peer, signalValue(envelope));
              if (check_) check_->greeted(peer);
            },
            [this](int peer, uint64_t bytes) { outbox_.signal(peer, kConsumedTag, bytes); }};
  }

  /// Returns when all links of all ranks have worked. After that no other process can connect.
  void meet(ControlPlane& control, const UcxOptions& options) {
    const std::shared_ptr<LinkCheck> check = check_;
    command([this, check] {
      for (int peer = 0; peer < worldSize_; ++peer) {
        if (peer == rank_) continue;
        outbox_.signal(peer, kGreetingTag, 0);
        outbox_.flush(peer, [check, peer](const Failure& failure) {
          failure ? check->failed(*failure) : check->flushed(peer);
        });
      }
    });
    check->wait(control, options.timeout, options.stop);
    const auto ports = control.allgather("transport.ports", port_.ports(), options.timeout);
    // Each rank gets the connections to itself only: all of all ranks would be N² lines for each of N ranks.
    const auto connections =
        control.alltoall("transport.connections", port_.connectionsTo(ports), options.timeout);
    try {
      const size_t cut = port_.close(connections);
      command([this, cut] { statistics_.dropped(cut); });
    } catch (const Error& error) {
      // With an open port, too, every message needs a proof.
      warn(rank_, std::string(error.what()) + "; strangers may connect to it, see docs/security.md");
    }
    command([this] {
      portIsClosed_ = true;
      check_.reset();
    });
  }

  /// Counts messages and packets that are not of this job, and warns of the first ones.
  void lookForStrangers() {
    if (makesSystemV_) keepSegmentsPrivate();  // UCX may have made more segments
    if (portIsClosed_) {
      const uint64_t packets = port_.packetsDropped();
      statistics_.dropped(packets - std::exchange(packets_, packets));
    }
    const uint64_t dropped = statistics_.counters().strangersDropped;
    if (dropped == 0 || std::exchange(saidSo_, true)) return;
    warn(rank_, "a process that does not belong to this job tries to reach its data port; " +
                    std::to_string(dropped) +
                    " of its messages or packets were dropped so far. "
                    "hipress.counters()[\"strangers_dropped\"] counts further ones; see docs/security.md");
  }

  /// After the end of the progress thread the caller runs the command, which reports a failure.
  template <typename Body>
  void command(Body body, bool (Mailbox::*post)(Mailbox::Command&&) = &Mailbox::post) {
    static_assert(Mailbox::Command::kFits<Body>);
    Mailbox::Command command(std::move(body));
    if (!(mailbox_.*post)(std::move(command))) command();
  }

  void run() {
    nameThisThread("network");
    std::vector<Mailbox::Command> commands;
    while (running_) {
      mailbox_.take(commands);
      for (const auto& each : commands) obey(each);
      bool busy = !commands.empty();
      commands.clear();  // a sleeping thread keeps no object of a command alive
      while (ucp_worker_progress(worker_->handle()) != 0) busy = true;
      if (busy || !mailbox_.prepareToSleep(!inbox_.receivesWait())) continue;
      const ucs_status_t armed = ucp_worker_arm(worker_->handle());
      if (armed == UCS_ERR_BUSY) continue;
      if (sleep_.sleep()) lookForStrangers();
    }
    finish();
  }

  /// Without memory for a command this rank ends: its message would be missing for ever.
  void obey(const Mailbox::Command& command) {
    try {
      command();
    } catch (const std::exception& error) {
      giveUp(failureOf(ErrorKind::kTransport, "rank " + std::to_string(rank_) +
                                                  ": the network's thread could not go on: " + error.what()));
    }
  }

  void peerFailed(int peer, const std::string& reason) {
    if (check_)
      check_->failed({ErrorKind::kPeerLost, "rank " + std::to_string(peer) + " was lost: " + reason});
    if (!failed_ && onPeerFailure_) onPeerFailure_(peer, reason);
  }

  void giveUp(const Failure& failure) {
    if (failed_) return;
    failed_ = true;
    outbox_.fail(failure);
    inbox_.fail(failure);
  }

  /// The last work of the progress thread. UCX goes first, so that nothing uses a payload after its callback.
  /// UCX drops the messages in flight, waits for no peer, and frees everything but a few requests.
  void finish() {
    inbox_.release();
    worker_->destroy();
    outbox_.finish();
    inbox_.finish();
  }

  const int rank_;
  const int worldSize_;
  const bool makesSystemV_;  // UCX makes System V segments
  TransportStatistics statistics_;
  Mailbox mailbox_;
  // Only the progress thread, once it runs, uses the members below.
  std::function<void(int, const std::string&)> onPeerFailure_;
  std::shared_ptr<LinkCheck> check_;  // nullptr once all links have worked
  const std::unique_ptr<UcxWorker> worker_;
  ProgressSleep sleep_;
  DataPort port_;
  UcxInbox inbox_;
  UcxLinks links_;
  UcxOutbox outbox_;
  bool portIsClosed_ = false;
  uint64_t packets_ = 0;  // packets that the closed port has dropped
  bool saidSo_ = false;
  bool failed_ = false;
  bool running_ = true;
  std::thread thread_;
};

}  // namespace

std::unique_ptr<Transport> makeUcxTransport(ControlPlane& control, const UcxOptions& options) {
  return std::make_unique<UcxTransport>(control, options, startOf(control, options));
}

}  // namespace hipress
