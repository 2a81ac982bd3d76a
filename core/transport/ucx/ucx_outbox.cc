// SPDX-License-Identifier: Apache-2.0
#include "core/transport/ucx/ucx_outbox.h"

#include <cstring>
#include <string>
#include <utility>

#include "core/transport/bundle.h"

namespace hipress {
namespace {

/// Limit of the memory of idle bundles.
constexpr size_t kMaxIdleBundleBytes = size_t{1} << 20;

}  // namespace

void UcxOutbox::send(SendRequest&& request) {
  if (failure_) return request.onSent(failure_);
  Outgoing& outgoing = next(request.peer, std::move(request.onSent));
  outgoing.envelope = {rank_, request.tag, request.header, 0, 0};
  outgoing.messages = 1;
  outgoing.payloadBytes = request.payload.size();
  start(outgoing, request.payload);
}

void UcxOutbox::sendBundle(BundleRequest&& request) {
  if (failure_) return request.onSent(failure_);
  Outgoing& outgoing = next(request.peer, std::move(request.onSent));
  outgoing.envelope = {rank_, kBundleTag, packBundle(request.messages, outgoing.bundle), 0, 0};
  outgoing.messages = request.messages.size();
  outgoing.payloadBytes = outgoing.bundle.size() - outgoing.messages * kPieceHeadBytes;
  start(outgoing, outgoing.bundle);
}

void UcxOutbox::signal(int peer, const MessageTag& tag, uint64_t value) {
  if (failure_) return;
  Outgoing& outgoing = next(peer, [](const Failure&) {});
  outgoing.envelope = {rank_, tag, {}, 0, 0};
  std::memcpy(outgoing.envelope.header.data(), &value, sizeof value);
  outgoing.messages = 0;
  outgoing.payloadBytes = 0;
  start(outgoing, {});
}

UcxOutbox::Outgoing& UcxOutbox::next(int peer, EndCallback&& onSent) {
  if (free_.empty()) {
    all_.push_back(std::make_unique<Outgoing>());
    all_.back()->outbox = this;
    free_.push_back(all_.back().get());
  }
  Outgoing& outgoing = *free_.back();
  free_.pop_back();
  idleBundleBytes_ -= outgoing.bundle.capacity();
  outgoing.peer = peer;
  outgoing.onSent = std::move(onSent);
  return outgoing;
}

void UcxOutbox::flush(int peer, EndCallback onFlushed) {
  if (failure_) return onFlushed(failure_);
  Outgoing& outgoing = next(peer, std::move(onFlushed));
  outgoing.messages = 0;
  outgoing.payloadBytes = 0;
  const ucp_request_param_t parameters = parametersFor(outgoing);
  follow(outgoing, ucp_ep_flush_nbx(links_.to(peer), &parameters));
}

ucp_request_param_t UcxOutbox::parametersFor(Outgoing& outgoing) {
  ucp_request_param_t parameters{};
  parameters.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  parameters.cb.send = [](void* request, ucs_status_t status, void* userData) {
    ucp_request_free(request);
    auto* ended = static_cast<Outgoing*>(userData);
    ended->outbox->sent(*ended, status);
  };
  parameters.user_data = &outgoing;
  outgoing.underway = true;
  return parameters;
}

void UcxOutbox::follow(Outgoing& outgoing, ucs_status_ptr_t result) {
  if (!UCS_PTR_IS_PTR(result)) sent(outgoing, UCS_PTR_STATUS(result));
}

void UcxOutbox::start(Outgoing& outgoing, std::span<const std::byte> bytes) {
  const auto peer = static_cast<size_t>(outgoing.peer);
  seals_[peer].close(outgoing.envelope, bytes.size());
  const size_t cost = outgoing.payloadBytes + outgoing.messages * kPieceHeadBytes;
  const bool early = credits_[peer].spend(cost) || bytes.empty();
  ucp_request_param_t parameters = parametersFor(outgoing);
  if (!early) {
    parameters.op_attr_mask |= UCP_OP_ATTR_FIELD_FLAGS;
    parameters.flags = UCP_AM_SEND_FLAG_RNDV;
  }
  follow(outgoing, ucp_am_send_nbx(links_.to(outgoing.peer), kUcxMessageId, &outgoing.envelope,
                                   sizeof(UcxEnvelope), bytes.data(), bytes.size(), &parameters));
}

void UcxOutbox::sent(Outgoing& outgoing, ucs_status_t status) {
  Failure failure;
  if (status == UCS_OK) {
    statistics_.sent(outgoing.messages, outgoing.payloadBytes);
  } else if (failure_) {
    failure = failure_;
  } else {
    failure = std::make_shared<Error>(transferError("sending to", outgoing.peer, status));
  }
  const EndCallback onSent = std::move(outgoing.onSent);
  outgoing.underway = false;
  if (idleBundleBytes_ + outgoing.bundle.capacity() > kMaxIdleBundleBytes) {
    std::vector<std::byte>().swap(outgoing.bundle);
  }
  idleBundleBytes_ += outgoing.bundle.capacity();
  free_.push_back(&outgoing);
  onSent(failure);
}

void UcxOutbox::finish() {
  for (auto& outgoing : all_) {
    if (outgoing->underway) outgoing->onSent(failure_);
  }
  free_.clear();
  all_.clear();
}

}  // namespace hipress
