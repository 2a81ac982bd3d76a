// SPDX-License-Identifier: Apache-2.0
#include "core/transport/ucx/ucx_inbox.h"

#include <cstring>
#include <new>
#include <optional>
#include <string>
#include <utility>

#include "core/transport/bundle.h"

namespace hipress {
namespace {

/// The memory for the payload, chosen by the receive. Throws Error.
std::span<std::byte> destinationOf(const RecvRequest& request, const MessageHeader& header, size_t bytes) {
  const auto destination = request.onHeader(header, bytes);
  if (destination.size() != bytes) {
    throw corruptPayload("a payload has another size than its receiver expects");
  }
  return destination;
}

}  // namespace

UcxInbox::UcxInbox(int rank, const UcxWorker& worker, std::vector<IncomingSeal> seals,
                   TransportStatistics& statistics, UcxInboxListener listener)
    : rank_(rank),
      worker_(worker),
      seals_(std::move(seals)),
      early_(seals_.size(), EarlyKeeping(earlyAllowance(static_cast<int>(seals_.size())))),
      statistics_(statistics),
      listener_(std::move(listener)),
      brokenLinks_(seals_.size()) {
  ucp_am_handler_param_t handler{};
  handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS |
                       UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG;
  handler.id = kUcxMessageId;
  handler.flags = UCP_AM_FLAG_WHOLE_MSG;
  handler.cb = [](void* self, const void* header, size_t headerLength, void* data, size_t length,
                  const ucp_am_recv_param_t* parameters) {
    // A message with a shorter header has no proof.
    UcxEnvelope envelope{-1, {}, {}, 0, 0};
    if (headerLength == sizeof envelope) std::memcpy(&envelope, header, sizeof envelope);
    return static_cast<UcxInbox*>(self)->arriveGuarded(envelope, data, length, parameters->recv_attr);
  };
  handler.arg = this;
  const ucs_status_t status = ucp_worker_set_am_recv_handler(worker_.handle(), &handler);
  if (status != UCS_OK) throw transportError(ucxMessage("UCX cannot receive active messages", status));
}

void UcxInbox::recv(RecvRequest&& request) {
  if (failure_) return request.onReceived(failure_);
  if (const Failure& broken = brokenLinks_[static_cast<size_t>(request.peer)])
    return request.onReceived(broken);
  // post() moves from the request only if it keeps the request.
  const auto message = matcher_.post(request);
  if (!message) return;
  release(request.peer, *message);
  consume(request.peer, message->bytes);
  if (message->isRendezvous) {
    if (!receive(request, *message)) ucp_am_data_release(worker_.handle(), message->held);
    return;
  }
  place(request, message->header, message->held ? message->held : message->copy.data(), message->bytes);
  if (message->held != nullptr) ucp_am_data_release(worker_.handle(), message->held);
}

/// The entry from UCX, which is C: no exception may leave this function.
ucs_status_t UcxInbox::arriveGuarded(const UcxEnvelope& envelope, void* data, size_t bytes,
                                     uint64_t attributes) {
  const bool known = envelope.source >= 0 && static_cast<size_t>(envelope.source) < seals_.size() &&
                     envelope.source != rank_;
  try {
    if (!known || !seals_[static_cast<size_t>(envelope.source)].admits(envelope, bytes)) {
      statistics_.dropped(1);
      return UCS_OK;
    }
    if (refuses(envelope.source)) return UCS_OK;
    return arrive(envelope, data, bytes, attributes);
  } catch (const std::exception& error) {
    couldNotTake(envelope.source, bytes, error);
    return UCS_OK;
  }
}

void UcxInbox::couldNotTake(int peer, size_t bytes, const std::exception& error) {
  const std::string what = "rank " + std::to_string(rank_) + " could not take a message of " +
                           std::to_string(bytes) + " bytes from rank " + std::to_string(peer);
  breakLink(peer, std::make_shared<Error>(transportError(what + ": " + error.what())));
}

/// The active message handler. The status says whether UCX may release its data. UCX releases eager data
/// unless this function keeps it. This rank releases a rendezvous descriptor that it keeps or fetches.
ucs_status_t UcxInbox::arrive(const UcxEnvelope& envelope, void* data, size_t bytes, uint64_t attributes) {
  if (envelope.tag == kGreetingTag || envelope.tag == kConsumedTag) {
    listener_.onSignal(envelope.source, envelope);
    return UCS_OK;
  }
  const bool isRendezvous = (attributes & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0;
  if (envelope.tag == kBundleTag) return arriveBundle(envelope, data, bytes, isRendezvous);

  const MessageKey key{envelope.source, envelope.tag};
  Arrived message{envelope.header, bytes, nullptr, isRendezvous, {}};
  if (auto request = matcher_.match(key)) {
    message.held = data;
    consume(envelope.source, bytes);
    if (!isRendezvous) {
      place(*request, message.header, data, bytes);
      return UCS_OK;
    }
    // UCX releases an unused descriptor when this handler has returned.
    return receive(*request, message) ? UCS_INPROGRESS : UCS_OK;
  }
  // Data that UCX keeps may be in its receive queue, and would take a whole segment of shared memory there.
  const bool mayStay = (attributes & UCP_AM_RECV_ATTR_FLAG_DATA) != 0 && bytes > kSharedSegmentBytes;
  if (isRendezvous || mayStay) {
    message.held = data;
  } else {
    const auto* first = static_cast<const std::byte*>(data);
    message.copy.assign(first, first + bytes);
  }
  const bool held = message.held != nullptr;
  return keep(key, std::move(message)) && held ? UCS_INPROGRESS : UCS_OK;
}

/// Keeps a message until its receive is posted. False: the message is dropped, the sender is at fault.
bool UcxInbox::keep(const MessageKey& key, Arrived&& message) {
  const size_t bytes = message.kept();
  if (!early_[static_cast<size_t>(key.peer)].keep(bytes)) {
    const std::string peer = "rank " + std::to_string(key.peer);
    breakLink(key.peer,
              std::make_shared<Error>(corruptPayload(
                  "rank " + std::to_string(rank_) + ": " + peer + " has sent " +
                  std::to_string(early_[static_cast<size_t>(key.peer)].kept() >> 20) +
                  " MiB of early messages, more than a rank may send ahead of the receives; check " + peer +
                  ", and that all ranks run the same version")));
    return false;
  }
  if (!matcher_.keep(key, std::move(message))) {
    early_[static_cast<size_t>(key.peer)].release(bytes);
    return false;
  }
  statistics_.kept(bytes);
  return true;
}

void UcxInbox::release(int peer, const Arrived& message) {
  early_[static_cast<size_t>(peer)].release(message.kept());
  statistics_.released(message.kept());
}

void UcxInbox::consume(int peer, size_t payloadBytes) {
  const uint64_t tell = early_[static_cast<size_t>(peer)].consume(payloadBytes + kPieceHeadBytes);
  if (tell != 0) listener_.onConsumed(peer, tell);
}

ucs_status_t UcxInbox::arriveBundle(const UcxEnvelope& envelope, void* data, size_t bytes,
                                    bool isRendezvous) {
  if (!isRendezvous) {
    split(envelope, {static_cast<const std::byte*>(data), bytes});
    return UCS_OK;
  }
  auto bundle = std::make_unique<Fetch>();
  try {
    if (bytes > kMaxBundleBytes) throw corruptPayload("it has " + std::to_string(bytes) + " bytes");
    bundle->bundle.resize(bytes);
  } catch (const Error& error) {
    refuseBundles(envelope.source, error);
    return UCS_OK;
  } catch (const std::bad_alloc&) {
    refuseBundles(envelope.source, transportError("no memory for its " + std::to_string(bytes) + " bytes"));
    return UCS_OK;
  }
  bundle->peer = envelope.source;
  bundle->bytes = bytes;
  bundle->bundleEnvelope = envelope;
  const std::span<std::byte> destination = bundle->bundle;
  fetch(std::move(bundle), data, destination);
  return UCS_INPROGRESS;
}

void UcxInbox::split(const UcxEnvelope& envelope, std::span<const std::byte> bytes) {
  try {
    splitBundle(envelope.header, bytes, pieces_);
  } catch (const Error& error) {
    return refuseBundles(envelope.source, error);
  }
  for (const auto& [tag, header, payload] : pieces_) {
    if (refuses(envelope.source)) return;
    const MessageKey key{envelope.source, tag};
    if (auto request = matcher_.match(key)) {
      consume(key.peer, payload.size());
      place(*request, header, payload.data(), payload.size());
    } else {
      keep(key, {header, payload.size(), nullptr, false, {payload.begin(), payload.end()}});
    }
  }
}

void UcxInbox::refuseBundles(int peer, const Error& reason) {
  breakLink(peer, std::make_shared<Error>(refusedBundle(rank_, peer, reason)));
}

void UcxInbox::breakLink(int peer, const Failure& failure) {
  brokenLinks_[static_cast<size_t>(peer)] = failure;
  hasBrokenLink_ = true;
  for (const auto& request : matcher_.takePosted(peer)) request.onReceived(failure);
}

/// Rendezvous: asks the sender for the payload. False: the receive has rejected the message, and the
/// descriptor is unused.
bool UcxInbox::receive(RecvRequest& request, const Arrived& message) {
  std::span<std::byte> destination;
  try {
    destination = destinationOf(request, message.header, message.bytes);
  } catch (const Error& error) {
    request.onReceived(std::make_shared<Error>(error));
    return false;
  }
  auto payload = std::make_unique<Fetch>();
  payload->peer = request.peer;
  payload->onReceived = std::move(request.onReceived);
  payload->bytes = message.bytes;
  fetch(std::move(payload), message.held, destination);
  return true;
}

/// Eager: copies the payload, which has arrived.
void UcxInbox::place(const RecvRequest& request, const MessageHeader& header, const void* data,
                     size_t bytes) {
  try {
    const auto destination = destinationOf(request, header, bytes);
    if (bytes > 0) std::memcpy(destination.data(), data, bytes);
  } catch (const Error& error) {
    return request.onReceived(std::make_shared<Error>(error));
  }
  statistics_.received(bytes);
  request.onReceived(nullptr);
}

void UcxInbox::fetch(std::unique_ptr<Fetch> fetch, void* descriptor, std::span<std::byte> destination) {
  Fetch* raw = fetch.get();
  raw->inbox = this;
  fetches_.emplace(raw, std::move(fetch));
  ucp_request_param_t parameters{};
  parameters.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  parameters.cb.recv_am = [](void* request, ucs_status_t status, size_t, void* userData) {
    ucp_request_free(request);
    auto* ended = static_cast<Fetch*>(userData);
    ended->inbox->fetched(ended, status);
  };
  parameters.user_data = raw;
  const auto result =
      ucp_am_recv_data_nbx(worker_.handle(), descriptor, destination.data(), destination.size(), &parameters);
  if (!UCS_PTR_IS_PTR(result)) fetched(raw, UCS_PTR_STATUS(result));
}

/// UCX calls this function, too.
void UcxInbox::fetched(Fetch* fetch, ucs_status_t status) {
  const auto ended = std::move(fetches_.extract(fetch).mapped());
  Failure failure;
  if (status != UCS_OK) {
    failure =
        failure_ ? failure_ : std::make_shared<Error>(transferError("receiving from", ended->peer, status));
  }
  try {
    if (!ended->onReceived) return fetchedBundle(*ended, failure);
    if (!failure) statistics_.received(ended->bytes);
    ended->onReceived(failure);
  } catch (const std::exception& error) {
    couldNotTake(ended->peer, ended->bytes, error);
  }
}

void UcxInbox::fetchedBundle(const Fetch& fetch, const Failure& failure) {
  if (refuses(fetch.bundleEnvelope.source)) return;
  if (failure) return breakLink(fetch.peer, failure);
  split(fetch.bundleEnvelope, fetch.bundle);
}

void UcxInbox::fail(const Failure& failure) {
  failure_ = failure;
  for (const auto& request : matcher_.takePosted()) request.onReceived(failure);
}

void UcxInbox::release() {
  for (const auto& message : matcher_.takeArrived()) {
    statistics_.released(message.kept());
    if (message.held != nullptr) ucp_am_data_release(worker_.handle(), message.held);
  }
}

void UcxInbox::finish() {
  for (const auto& [key, fetch] : std::exchange(fetches_, {})) {
    if (fetch->onReceived) fetch->onReceived(failure_);
  }
}

}  // namespace hipress
