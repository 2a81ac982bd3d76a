// SPDX-License-Identifier: Apache-2.0
//
// Incoming messages of one rank: brought together with their receives, whichever comes first, and out of
// bundles as if each had come alone. For the progress thread only.
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "core/transport/matcher.h"
#include "core/transport/statistics.h"
#include "core/transport/transport.h"
#include "core/transport/ucx/ucx_context.h"
#include "core/transport/ucx/ucx_envelope.h"

namespace hipress {

class UcxInbox {
 public:
  /// Throws Transport if UCX cannot hand over messages.
  UcxInbox(int rank, int worldSize, const UcxWorker& worker, TransportStatistics& statistics);
  UcxInbox(const UcxInbox&) = delete;
  UcxInbox& operator=(const UcxInbox&) = delete;

  void recv(RecvRequest&& request);

  /// Receives that wait, and those to come, end with `failure`. Payloads on their way cannot be called back:
  /// they end with finish().
  void fail(const Failure& failure);

  /// Gives back what UCX keeps for receives that were never posted. Before the worker is destroyed.
  void release();

  /// UCX touches nothing any more: what it still had ends with the failure.
  void finish();

 private:
  /// A message that came before its receive was posted. UCX keeps the data of some, we keep a copy of the
  /// others.
  struct Arrived {
    MessageHeader header{};
    size_t bytes = 0;
    void* held = nullptr;       // descriptor or data that UCX keeps for us
    bool isRendezvous = false;  // `held` is a descriptor: the payload is still with the sender
    std::vector<std::byte> copy;
    size_t kept() const { return isRendezvous ? 0 : bytes; }
  };
  /// A payload on its way from the sender's memory: of a message, or of a bundle that nobody asked for.
  struct Fetch {
    UcxInbox* inbox = nullptr;
    int peer = 0;
    EndCallback onReceived;
    size_t bytes = 0;
    UcxEnvelope bundleEnvelope;
    std::vector<std::byte> bundle;
  };

  ucs_status_t arrive(const UcxEnvelope& envelope, void* data, size_t bytes, uint64_t attributes);
  ucs_status_t arriveBundle(const UcxEnvelope& envelope, void* data, size_t bytes, bool isRendezvous);
  void split(const UcxEnvelope& envelope, std::span<const std::byte> bytes);
  void refuseBundles(int peer, const Error& reason);
  void breakLink(int peer, const Failure& failure);
  void receive(RecvRequest& request, const Arrived& message);
  void place(const RecvRequest& request, const MessageHeader& header, const void* data, size_t bytes);
  void fetch(std::unique_ptr<Fetch> fetch, void* descriptor, std::span<std::byte> destination);
  void fetched(Fetch* fetch, ucs_status_t status);
  void fetchedBundle(const Fetch& fetch, const Failure& failure);
  bool refuses(int peer) const { return failure_ || brokenLinks_[static_cast<size_t>(peer)]; }

  const int rank_;
  const UcxWorker& worker_;
  TransportStatistics& statistics_;
  Failure failure_;
  std::vector<Failure> brokenLinks_;  // by peer, once a bundle of it was refused or lost
  Matcher<Arrived> matcher_;
  std::vector<MessageView> pieces_;  // of the bundle that arrives
  std::unordered_map<Fetch*, std::unique_ptr<Fetch>> fetches_;
};

}  // namespace hipress
