// SPDX-License-Identifier: Apache-2.0
//
// The interface of transports, which carry bytes between ranks. A message is a tag, a small fixed header and
// a payload. Both ends know a message by its tag, so ranks need not agree on an order. Sends and receives
// return at once. Completions are callbacks on the transport's progress thread, which sleeps while it has no
// work. A transport knows nothing of codecs and tensors.
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

/// The name of one message between two ranks. Each tag is sent once, because `step` counts the
/// synchronisations of the tensor.
struct MessageTag {
  uint32_t tensor = 0;
  uint32_t step = 0;
  uint16_t partition = 0;
  uint16_t hop = 0;
  auto operator<=>(const MessageTag&) const = default;
};

/// The header travels with the payload and means nothing to the transport. The receiver has it before it
/// chooses a buffer.
inline constexpr size_t kMessageHeaderBytes = 32;
using MessageHeader = std::array<std::byte, kMessageHeaderBytes>;

/// Larger payloads cost a transport more per byte, so larger tensors are cut into partitions of this size.
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
  EndCallback onSent;  ///< The caller may reuse the payload. The receiver may not have it yet.
};

/// Small messages for one peer that share the cost of one message. List and payloads stay valid and unchanged
/// until `onSent`, which is called once for all messages.
struct BundleRequest {
  int peer = 0;
  std::span<const MessageView> messages;
  EndCallback onSent;
};

/// One expected message. Callbacks run on the progress thread and must not block.
struct RecvRequest {
  int peer = 0;
  MessageTag tag;
  /// Called when header and size are known. Returns the memory for the payload (exactly `payloadBytes`, valid
  /// until onReceived). A thrown Error rejects the message and goes to onReceived.
  InlineFunction<std::span<std::byte>(const MessageHeader&, size_t payloadBytes)> onHeader;
  EndCallback onReceived;  ///< The payload is complete, or it failed.
};

/// Counts messages between different ranks, with payload and header. A message counts in the same way alone
/// and in a bundle, so the counters do not depend on which messages happened to wait together.
struct TransportCounters {
  uint64_t bytesSent = 0;  ///< Payloads and headers since the start.
  uint64_t bytesReceived = 0;
  uint64_t messagesSent = 0;
  uint64_t messagesReceived = 0;
  uint64_t bundlesSent = 0;      ///< Bundles of two messages or more.
  uint64_t unexpectedBytes = 0;  ///< Payloads of early messages that the rank keeps now.
  uint64_t unexpectedPeakBytes = 0;
  /// Messages without a proof that they are of this job, and packets to the closed data port.
  uint64_t strangersDropped = 0;
};

class Transport {
 public:
  virtual ~Transport() = default;
  virtual std::string name() const = 0;
  virtual int rank() const = 0;
  virtual int worldSize() const = 0;

  /// These functions are thread-safe and return at once. After fail() or close() the callback gets the
  /// failure, on the progress thread or, after the end of this thread, on the caller's thread.
  virtual void send(SendRequest request) = 0;
  /// The receiver sees the same as after a send() of each message. At most kMaxBundleBytes (bundle.h).
  virtual void sendBundle(BundleRequest request) = 0;
  /// Whether bytes for this peer pass sockets, where every message has a high fixed cost, and not shared
  /// memory. Thread-safe.
  virtual bool usesSockets(int peer) const = 0;
  /// Bytes to other hosts whose arrival the system knows of; 0: it does not tell. More of them are progress
  /// of a large message. Takes some time. Thread-safe.
  virtual uint64_t acknowledgedBytes() const { return 0; }
  virtual void recv(RecvRequest request) = 0;

  /// Ends every operation, in flight or later, with `failure`. After its callback an operation uses its
  /// payload no more. Idempotent; the first failure stays.
  virtual void fail(const Failure& failure) = 0;

  /// Sets the handler for broken connections; it is called on the progress thread. A transport that cannot
  /// detect them never calls it: the control plane also detects a dead process.
  virtual void onPeerFailure(std::function<void(int peer, const std::string& reason)> handler) = 0;

  virtual TransportCounters counters() const = 0;

  /// Ends the operations in flight and the progress thread, and closes the connections. Idempotent.
  virtual void close() = 0;
};

}  // namespace hipress
