// SPDX-License-Identifier: Apache-2.0
//
// The interface of transports, which carry bytes between ranks. A message is a tag, a small fixed header and
// a payload; both ends name it by the tag, so ranks need not agree on an order. Everything is non-blocking:
// completions arrive as callbacks on the transport's progress thread, which sleeps while nothing moves. A
// transport knows nothing of codecs and tensors.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "core/base/failure.h"

namespace hipress {

/// Names one message between a given pair of ranks. Each tag is sent once: `step` counts a tensor's
/// synchronisations.
struct MessageTag {
  uint32_t tensor = 0;
  uint32_t step = 0;
  uint16_t partition = 0;
  uint16_t hop = 0;
  auto operator<=>(const MessageTag&) const = default;
};

/// Travels with the payload, opaque to the transport, and is known to the receiver before it chooses a
/// buffer.
inline constexpr size_t kMessageHeaderBytes = 32;
using MessageHeader = std::array<std::byte, kMessageHeaderBytes>;

/// Larger payloads cost a transport more per byte. Larger tensors are cut into partitions of this size.
inline constexpr size_t kFavouredPayloadBytes = size_t{4} << 20;

/// A message whose payload belongs to the caller.
struct MessageView {
  MessageTag tag;
  MessageHeader header{};
  std::span<const std::byte> payload;
};

/// One outgoing message. `payload` stays valid and unchanged until `onSent`.
struct SendRequest : MessageView {
  int peer = 0;
  EndCallback onSent;  ///< The payload may be reused. Says nothing about the receiver.
};

/// Small messages for one peer that share the cost of one. List and payloads stay valid and unchanged until
/// `onSent`, which is called once for all of them.
struct BundleRequest {
  int peer = 0;
  std::span<const MessageView> messages;
  EndCallback onSent;
};

/// One expected message. Callbacks run on the progress thread and must not block.
struct RecvRequest {
  int peer = 0;
  MessageTag tag;
  /// The header and the payload's size are here: returns where the payload goes (exactly `payloadBytes`,
  /// valid until onReceived). May throw Error to refuse the message; onReceived then gets that error.
  InlineFunction<std::span<std::byte>(const MessageHeader&, size_t payloadBytes)> onHeader;
  EndCallback onReceived;  ///< The payload is complete, or the failure.
};

/// Of messages between different ranks. A message counts, with its payload and its header, whether it went
/// alone or in a bundle: the counters do not depend on which messages happened to wait together.
struct TransportCounters {
  uint64_t bytesSent = 0;  ///< Payloads and headers since the start.
  uint64_t bytesReceived = 0;
  uint64_t messagesSent = 0;
  uint64_t messagesReceived = 0;
  uint64_t bundlesSent = 0;      ///< Each carried two messages or more.
  uint64_t unexpectedBytes = 0;  ///< Payloads kept now, because they came before their receives.
  uint64_t unexpectedPeakBytes = 0;
  /// Messages without the proof that they are of this job, and packets that came to a closed data port.
  uint64_t strangersDropped = 0;
};

class Transport {
 public:
  virtual ~Transport() = default;
  virtual std::string name() const = 0;
  virtual int rank() const = 0;
  virtual int worldSize() const = 0;

  /// Thread-safe; return at once. After fail() or close() the callback gets the failure, on the progress
  /// thread or, if that has ended, on the caller's.
  virtual void send(SendRequest request) = 0;
  /// The receiver sees the same as after a send() of each message. At most kMaxBundleBytes (bundle.h).
  virtual void sendBundle(BundleRequest request) = 0;
  /// Whether bytes for this peer go through sockets, where a message costs much whatever its size; not if
  /// they go through shared memory. Thread-safe.
  virtual bool usesSockets(int peer) const = 0;
  virtual void recv(RecvRequest request) = 0;

  /// Gives up every operation in flight and every later one with `failure`. When a callback has run, its
  /// payload is not touched any more. Idempotent; the first failure stays.
  virtual void fail(const Failure& failure) = 0;

  /// Sets the handler for a connection to a peer that broke; called on the progress thread. Transports that
  /// cannot tell never call it: the control plane notices a dead process too.
  virtual void onPeerFailure(std::function<void(int peer, const std::string& reason)> handler) = 0;

  virtual TransportCounters counters() const = 0;

  /// Gives up the operations in flight, ends the progress thread, closes connections. Idempotent.
  virtual void close() = 0;
};

}  // namespace hipress
