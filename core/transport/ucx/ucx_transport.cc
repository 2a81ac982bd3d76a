// SPDX-License-Identifier: Apache-2.0
//
// All UCX calls are made by one thread per rank, the progress thread: other threads leave commands in a
// mailbox. It sleeps in poll() on UCX's wake-up descriptor and the mailbox's.
#include "core/transport/ucx/ucx_transport.h"

#include <poll.h>
#include <ucp/api/ucp.h>

#include <atomic>
#include <cstring>
#include <thread>
#include <unordered_set>
#include <utility>
#include <vector>

#include "core/transport/mailbox.h"
#include "core/transport/matcher.h"
#include "core/transport/ucx/host_identity.h"
#include "core/transport/ucx/network_interface.h"
#include "core/transport/ucx/ucx_context.h"

namespace hipress {
namespace {

constexpr unsigned kActiveMessageId = 0;

/// In front of every payload: who sends it and which message it is.
struct Envelope {
  int32_t source = 0;
  MessageTag tag;
  MessageHeader header{};
};
static_assert(sizeof(Envelope) == 48);

/// A message that came before its receive was posted. UCX keeps the data of some, we keep a copy of the
/// others.
struct Arrived {
  MessageHeader header{};
  size_t bytes = 0;
  void* held = nullptr;       // descriptor or data that UCX keeps for us
  bool isRendezvous = false;  // `held` is a descriptor: the payload is still with the sender
  std::vector<std::byte> copy;
};

class UcxTransport final : public Transport {
 public:
  UcxTransport(ControlPlane& control, const UcxOptions& options)
      : rank_(control.rank()), worldSize_(control.worldSize()), worker_(interfaceOf(options.localAddress)) {
    setHandler();
    connect(control, options.timeout);
    thread_ = std::thread([this] { run(); });
  }

  ~UcxTransport() override { close(); }

  std::string name() const override { return "ucx"; }
  int rank() const override { return rank_; }
  int worldSize() const override { return worldSize_; }

  void send(SendRequest request) override {
    auto outgoing = std::make_shared<Outgoing>();
    outgoing->envelope = {rank_, request.tag, request.header};
    outgoing->request = std::move(request);
    if (!mailbox_.post([this, outgoing] { start(outgoing); })) outgoing->request.onSent(closedFailure());
  }

  void recv(RecvRequest request) override {
    auto shared = std::make_shared<RecvRequest>(std::move(request));
    const bool taken = mailbox_.post([this, shared] {
      if (failure_) return shared->onReceived(failure_);
      if (auto message = matcher_.post(*shared)) receive(std::move(*shared), *message);
    });
    if (!taken) shared->onReceived(closedFailure());
  }

  void fail(const Failure& failure) override {
    mailbox_.post([this, failure] {
      broken_ = true;
      giveUp(failure);
    });
  }

  void onPeerFailure(std::function<void(int, const std::string&)> handler) override {
    mailbox_.post([this, handler = std::move(handler)] { onPeerFailure_ = handler; });
  }

  TransportCounters counters() const override {
    return {bytesSent_.load(std::memory_order_relaxed), bytesReceived_.load(std::memory_order_relaxed),
            messagesSent_.load(std::memory_order_relaxed), messagesReceived_.load(std::memory_order_relaxed)};
  }

  void close() override {
    if (!thread_.joinable()) return;
    mailbox_.post([this] {
      giveUp(closedFailure());
      running_ = false;
    });
    thread_.join();
    for (auto& command : mailbox_.shut()) command();
  }

 private:
  /// UCX keeps a pointer to it until the message is out.
  struct Outgoing {
    Envelope envelope;
    SendRequest request;
  };
  /// What a UCX request of ours points to while it is in flight.
  struct InFlight {
    UcxTransport* transport = nullptr;
    std::shared_ptr<Outgoing> outgoing;              // a send, or
    std::function<void(const Failure&)> onReceived;  // a receive of
    size_t bytes = 0;                                // this many
    void* request = nullptr;
  };

  static Failure closedFailure() {
    return std::make_shared<Error>(ErrorKind::kNotInitialized, "the transport is closed");
  }
  Failure ucxFailure(const std::string& what, ucs_status_t status) const {
    return failure_ ? failure_ : std::make_shared<Error>(ErrorKind::kTransport, ucxMessage(what, status));
  }

  void setHandler() {
    ucp_am_handler_param_t handler{};
    handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS |
                         UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG;
    handler.id = kActiveMessageId;
    handler.flags = UCP_AM_FLAG_WHOLE_MSG;
    handler.cb = [](void* self, const void* header, size_t headerLength, void* data, size_t length,
                    const ucp_am_recv_param_t* parameters) {
      return static_cast<UcxTransport*>(self)->arrive(header, headerLength, data, length,
                                                      parameters->recv_attr);
    };
    handler.arg = this;
    const ucs_status_t status = ucp_worker_set_am_recv_handler(worker_.handle(), &handler);
    if (status != UCS_OK) throw transportError(ucxMessage("UCX cannot receive active messages", status));
  }

  void connect(ControlPlane& control, Milliseconds timeout) {
    const std::string host = hostIdentity();
    const auto addresses =
        control.allgather("transport.ucx", host + std::string(1, '\0') + worker_.address(), timeout);
    endpoints_.resize(static_cast<size_t>(worldSize_));
    peers_.resize(static_cast<size_t>(worldSize_));
    for (int peer = 0; peer < worldSize_; ++peer) {
      if (peer == rank_) continue;
      const auto& entry = addresses[static_cast<size_t>(peer)];
      const size_t split = entry.find('\0');
      connectTo(peer, entry.substr(split + 1), entry.compare(0, split, host) == 0);
    }
  }

  void connectTo(int peer, const std::string& address, bool sameHost) {
    peers_[static_cast<size_t>(peer)] = {this, peer};
    ucp_ep_params_t parameters{};
    parameters.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                            UCP_EP_PARAM_FIELD_ERR_HANDLER;
    parameters.address = reinterpret_cast<const ucp_address_t*>(address.data());
    // Endpoints that watch for a dead peer cannot use shared memory; on one host the control plane sees a
    // death.
    parameters.err_mode = sameHost ? UCP_ERR_HANDLING_MODE_NONE : UCP_ERR_HANDLING_MODE_PEER;
    parameters.err_handler.cb = [](void* argument, ucp_ep_h, ucs_status_t status) {
      const auto* identity = static_cast<Peer*>(argument);
      identity->transport->peerFailed(identity->rank, status);
    };
    parameters.err_handler.arg = &peers_[static_cast<size_t>(peer)];
    const ucs_status_t status =
        ucp_ep_create(worker_.handle(), &parameters, &endpoints_[static_cast<size_t>(peer)]);
    if (status != UCS_OK) {
      throw transportError(ucxMessage("UCX cannot connect to rank " + std::to_string(peer), status));
    }
  }

  void run() {
    while (running_) {
      bool busy = false;
      for (auto& command : mailbox_.take()) {
        command();
        busy = true;
      }
      while (ucp_worker_progress(worker_.handle()) != 0) busy = true;
      if (busy) continue;
      const ucs_status_t armed = ucp_worker_arm(worker_.handle());
      if (armed == UCS_ERR_BUSY) continue;
      pollfd descriptors[2] = {{mailbox_.wakeFd(), POLLIN, 0}, {worker_.wakeFd(), POLLIN, 0}};
      ::poll(descriptors, 2, -1);
    }
    finish();
  }

  void start(const std::shared_ptr<Outgoing>& outgoing) {
    auto& request = outgoing->request;
    if (failure_) return request.onSent(failure_);
    auto* flight = new InFlight{this, outgoing, nullptr, request.payload.size(), nullptr};
    ucp_request_param_t parameters{};
    parameters.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
    parameters.cb.send = [](void* ucxRequest, ucs_status_t status, void* userData) {
      ucp_request_free(ucxRequest);
      auto* sent = static_cast<InFlight*>(userData);
      sent->transport->sent(sent, status);
    };
    parameters.user_data = flight;
    const auto result =
        ucp_am_send_nbx(endpoints_[static_cast<size_t>(request.peer)], kActiveMessageId, &outgoing->envelope,
                        sizeof(Envelope), request.payload.data(), request.payload.size(), &parameters);
    if (UCS_PTR_IS_PTR(result)) {
      track(flight, result);
    } else {
      sent(flight, UCS_PTR_STATUS(result));
    }
  }

  void sent(InFlight* flight, ucs_status_t status) {
    const std::unique_ptr<InFlight> owned(flight);
    inFlight_.erase(flight);
    const auto& request = flight->outgoing->request;
    if (status == UCS_OK) {
      bytesSent_.fetch_add(flight->bytes + kMessageHeaderBytes, std::memory_order_relaxed);
      messagesSent_.fetch_add(1, std::memory_order_relaxed);
      return request.onSent(nullptr);
    }
    request.onSent(ucxFailure("sending to rank " + std::to_string(request.peer) + " failed", status));
  }

  /// The active message handler; says whether UCX may drop its data.
  ucs_status_t arrive(const void* header, size_t headerLength, void* data, size_t length,
                      uint64_t attributes) {
    Envelope envelope;
    if (failure_ || headerLength != sizeof envelope) return UCS_OK;
    std::memcpy(&envelope, header, sizeof envelope);
    if (envelope.source < 0 || envelope.source >= worldSize_) return UCS_OK;

    Arrived message;
    message.header = envelope.header;
    message.bytes = length;
    message.isRendezvous = (attributes & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0;
    const MessageKey key{envelope.source, envelope.tag};
    auto request = matcher_.match(key);
    if (request) {
      message.held = data;
      const bool keeps = message.isRendezvous;
      receiveFromHandler(std::move(*request), message);
      return keeps ? UCS_INPROGRESS : UCS_OK;
    }
    if (message.isRendezvous || (attributes & UCP_AM_RECV_ATTR_FLAG_DATA) != 0) {
      message.held = data;
      return matcher_.keep(key, std::move(message)) ? UCS_INPROGRESS : UCS_OK;
    }
    const auto* bytes = static_cast<const std::byte*>(data);
    message.copy.assign(bytes, bytes + length);
    matcher_.keep(key, std::move(message));
    return UCS_OK;
  }

  /// UCX owns eager data during the handler and frees it afterwards; rendezvous descriptors become ours.
  void receiveFromHandler(RecvRequest request, const Arrived& message) {
    if (message.isRendezvous) return receive(std::move(request), message);
    const Failure failure = place(request, message, message.held);
    request.onReceived(failure);
  }

  void receive(RecvRequest request, const Arrived& message) {
    if (!message.isRendezvous) {
      const Failure failure = place(request, message, message.held ? message.held : message.copy.data());
      if (message.held != nullptr) ucp_am_data_release(worker_.handle(), message.held);
      return request.onReceived(failure);
    }
    std::span<std::byte> destination;
    if (const Failure failure = destinationOf(request, message, &destination)) {
      ucp_am_data_release(worker_.handle(), message.held);
      return request.onReceived(failure);
    }
    fetch(std::move(request), message, destination);
  }

  /// Rendezvous: moves the payload from the sender's memory to ours.
  void fetch(RecvRequest request, const Arrived& message, std::span<std::byte> destination) {
    auto* flight = new InFlight{this, nullptr, std::move(request.onReceived), message.bytes, nullptr};
    ucp_request_param_t parameters{};
    parameters.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
    parameters.cb.recv_am = [](void* ucxRequest, ucs_status_t status, size_t, void* userData) {
      ucp_request_free(ucxRequest);
      auto* received = static_cast<InFlight*>(userData);
      received->transport->fetched(received, status);
    };
    parameters.user_data = flight;
    const auto result = ucp_am_recv_data_nbx(worker_.handle(), message.held, destination.data(),
                                             destination.size(), &parameters);
    if (UCS_PTR_IS_PTR(result)) {
      track(flight, result);
    } else {
      fetched(flight, UCS_PTR_STATUS(result));
    }
  }

  void fetched(InFlight* flight, ucs_status_t status) {
    const std::unique_ptr<InFlight> owned(flight);
    inFlight_.erase(flight);
    if (status != UCS_OK) return flight->onReceived(ucxFailure("receiving failed", status));
    countReceived(flight->bytes);
    flight->onReceived(nullptr);
  }

  Failure destinationOf(const RecvRequest& request, const Arrived& message,
                        std::span<std::byte>* destination) {
    try {
      *destination = request.onHeader(message.header, message.bytes);
      if (destination->size() != message.bytes) {
        throw corruptPayload("a payload has another size than its receiver expects");
      }
      return nullptr;
    } catch (const Error& error) {
      return std::make_shared<Error>(error);
    }
  }

  Failure place(const RecvRequest& request, const Arrived& message, const void* data) {
    std::span<std::byte> destination;
    if (Failure failure = destinationOf(request, message, &destination)) return failure;
    if (!destination.empty()) std::memcpy(destination.data(), data, destination.size());
    countReceived(message.bytes);
    return nullptr;
  }

  void countReceived(size_t bytes) {
    bytesReceived_.fetch_add(bytes + kMessageHeaderBytes, std::memory_order_relaxed);
    messagesReceived_.fetch_add(1, std::memory_order_relaxed);
  }

  void track(InFlight* flight, void* request) {
    flight->request = request;
    inFlight_.insert(flight);
  }

  void peerFailed(int peer, ucs_status_t status) {
    if (failure_ || !onPeerFailure_) return;
    onPeerFailure_(peer, ucxMessage("the connection to rank " + std::to_string(peer) + " broke", status));
  }

  void giveUp(const Failure& failure) {
    if (failure_) return;
    failure_ = failure;
    for (auto& request : matcher_.takePosted()) request.onReceived(failure);
    // Data in flight cannot be called back on shared-memory endpoints: those callbacks run when the worker is
    // gone.
  }

  /// The last act of the progress thread. UCX is torn down first: nothing touches a payload after its
  /// callback.
  void finish() {
    if (broken_) {
      // UCX waits for transfers in flight when it is destroyed, and those with a dead peer may never end.
      // From here on nobody makes progress, so nothing is touched any more; what UCX holds goes with the
      // process.
      worker_.abandon();
    } else {
      for (auto& message : matcher_.takeArrived()) {
        if (message.held != nullptr) ucp_am_data_release(worker_.handle(), message.held);
      }
      worker_.destroy();
    }
    for (auto* flight : std::exchange(inFlight_, {})) {
      if (flight->outgoing) {
        flight->outgoing->request.onSent(failure_);
      } else {
        flight->onReceived(failure_);
      }
      delete flight;
    }
  }

  struct Peer {
    UcxTransport* transport = nullptr;
    int rank = -1;
  };

  const int rank_;
  const int worldSize_;
  std::atomic<uint64_t> bytesSent_{0}, bytesReceived_{0}, messagesSent_{0}, messagesReceived_{0};
  Mailbox mailbox_;
  // Below: used by the progress thread only, once it runs.
  std::function<void(int, const std::string&)> onPeerFailure_;
  UcxWorker worker_;
  std::vector<ucp_ep_h> endpoints_;
  std::vector<Peer> peers_;
  Matcher<Arrived> matcher_;
  std::unordered_set<InFlight*> inFlight_;
  Failure failure_;
  bool broken_ = false;  // failed, as opposed to closed
  bool running_ = true;
  std::thread thread_;
};

}  // namespace

std::unique_ptr<Transport> makeUcxTransport(ControlPlane& control, const UcxOptions& options) {
  return std::make_unique<UcxTransport>(control, options);
}

}  // namespace hipress
