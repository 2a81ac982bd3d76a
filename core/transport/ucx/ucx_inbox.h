// SPDX-License-Identifier: Apache-2.0
//
// The incoming messages of one rank. The inbox pairs messages with their receives, in either order, and
// splits bundles. For the progress thread only.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

#include "core/transport/early_bytes.h"
#include "core/transport/matcher.h"
#include "core/transport/statistics.h"
#include "core/transport/transport.h"
#include "core/transport/ucx/trust/link_seal.h"
#include "core/transport/ucx/ucx_context.h"

namespace hipress {

/// The inbox reports these events on the progress thread.
struct UcxInboxListener {
  std::function<void(int peer, const UcxEnvelope&)> onSignal;
  /// `bytes` of the peer's messages have met their receives; the peer should know.
  std::function<void(int peer, uint64_t bytes)> onConsumed;
};

class UcxInbox {
 public:
  /// `seals`: one for each peer. Throws Transport if UCX cannot deliver messages.
  UcxInbox(int rank, const UcxWorker& worker, std::vector<IncomingSeal> seals,
           TransportStatistics& statistics, UcxInboxListener listener);
  UcxInbox(const UcxInbox&) = delete;
  UcxInbox& operator=(const UcxInbox&) = delete;

  void recv(RecvRequest&& request);

  /// Whether every receive so far only waits for its message, so that a new receive needs no wake-up.
  bool receivesWait() const { return !failure_ && !hasBrokenLink_ && !matcher_.keeps(); }

  /// Ends waiting and later receives with `failure`. UCX cannot cancel payloads in flight: they end with
  /// finish().
  void fail(const Failure& failure);

  /// Releases the messages that UCX keeps and that no receive took. Must come before the worker is
  /// destroyed.
  void release();

  /// UCX uses no memory any more: the payloads that were still in flight end with the failure.
  void finish();

 private:
  /// A message that came before its receive. UCX keeps the data of some messages, and the inbox keeps a copy
  /// of the others.
  struct Arrived {
    MessageHeader header{};
    size_t bytes = 0;
    void* held = nullptr;       // descriptor or data that UCX keeps for the inbox
    bool isRendezvous = false;  // `held` is a descriptor: the sender has the payload
    std::vector<std::byte> copy;
    size_t kept() const { return isRendezvous ? 0 : bytes; }
  };
  /// A payload in flight from the sender's memory: of a message, or of a bundle, which has no receive of its
  /// own.
  struct Fetch {
    UcxInbox* inbox = nullptr;
    int peer = 0;
    EndCallback onReceived;
    size_t bytes = 0;
    UcxEnvelope bundleEnvelope;
    std::vector<std::byte> bundle;
  };

  ucs_status_t arriveGuarded(const UcxEnvelope& envelope, void* data, size_t bytes, uint64_t attributes);
  ucs_status_t arrive(const UcxEnvelope& envelope, void* data, size_t bytes, uint64_t attributes);
  ucs_status_t arriveBundle(const UcxEnvelope& envelope, void* data, size_t bytes, bool isRendezvous);
  void split(const UcxEnvelope& envelope, std::span<const std::byte> bytes);
  void couldNotTake(int peer, size_t bytes, const std::exception& error);
  void refuseBundles(int peer, const Error& reason);
  void breakLink(int peer, const Failure& failure);
  bool keep(const MessageKey& key, Arrived&& message);
  void release(int peer, const Arrived& message);
  void consume(int peer, size_t payloadBytes);
  bool receive(RecvRequest& request, const Arrived& message);
  void place(const RecvRequest& request, const MessageHeader& header, const void* data, size_t bytes);
  void fetch(std::unique_ptr<Fetch> fetch, void* descriptor, std::span<std::byte> destination);
  void fetched(Fetch* fetch, ucs_status_t status);
  void fetchedBundle(const Fetch& fetch, const Failure& failure);
  bool refuses(int peer) const { return failure_ || brokenLinks_[static_cast<size_t>(peer)]; }

  const int rank_;
  const UcxWorker& worker_;
  std::vector<IncomingSeal> seals_;
  std::vector<EarlyKeeping> early_;
  TransportStatistics& statistics_;
  const UcxInboxListener listener_;
  Failure failure_;
  std::vector<Failure> brokenLinks_;  // by peer: the failure after a rejected or lost message
  bool hasBrokenLink_ = false;
  Matcher<Arrived> matcher_;
  std::vector<MessageView> pieces_;  // of the arriving bundle
  std::unordered_map<Fetch*, std::unique_ptr<Fetch>> fetches_;
};

}  // namespace hipress
