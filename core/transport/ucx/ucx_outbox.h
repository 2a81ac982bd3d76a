// SPDX-License-Identifier: Apache-2.0
//
// The outgoing messages of one rank, alone and in bundles. For the progress thread only.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "core/transport/early_bytes.h"
#include "core/transport/statistics.h"
#include "core/transport/transport.h"
#include "core/transport/ucx/trust/link_seal.h"
#include "core/transport/ucx/ucx_links.h"

namespace hipress {

class UcxOutbox {
 public:
  /// `seals`: one for each peer.
  UcxOutbox(int rank, const UcxLinks& links, std::vector<OutgoingSeal> seals, TransportStatistics& statistics)
      : rank_(rank),
        links_(links),
        seals_(std::move(seals)),
        credits_(seals_.size(), EarlyCredit(earlyAllowance(static_cast<int>(seals_.size())))),
        statistics_(statistics) {}
  UcxOutbox(const UcxOutbox&) = delete;
  UcxOutbox& operator=(const UcxOutbox&) = delete;

  void send(SendRequest&& request);
  void sendBundle(BundleRequest&& request);
  void signal(int peer, const MessageTag& tag, uint64_t value);
  /// Calls `onFlushed` when all earlier messages to the peer are out, so that the connection works.
  void flush(int peer, EndCallback onFlushed);

  /// Takes the peer's report of how many bytes of this rank have met their receives.
  void consumed(int peer, uint64_t bytes) { credits_[static_cast<size_t>(peer)].consumed(bytes); }

  /// Later messages end with `failure`. UCX cannot cancel messages in flight on shared-memory endpoints: they
  /// end with finish().
  void fail(const Failure& failure) { failure_ = failure; }

  /// UCX uses no memory any more: the messages that were still in flight end with the failure.
  void finish();

 private:
  /// A message in flight. UCX keeps pointers into this object until the message is out.
  struct Outgoing {
    UcxOutbox* outbox = nullptr;
    bool underway = false;
    int peer = 0;
    UcxEnvelope envelope;
    std::vector<std::byte> bundle;  // the bundle's bytes
    size_t messages = 1;
    size_t payloadBytes = 0;
    EndCallback onSent;
  };

  Outgoing& next(int peer, EndCallback&& onSent);
  void follow(Outgoing& outgoing, ucs_status_ptr_t result);
  static ucp_request_param_t parametersFor(Outgoing& outgoing);
  void start(Outgoing& outgoing, std::span<const std::byte> bytes);
  void sent(Outgoing& outgoing, ucs_status_t status);

  const int rank_;
  const UcxLinks& links_;
  std::vector<OutgoingSeal> seals_;
  std::vector<EarlyCredit> credits_;
  TransportStatistics& statistics_;
  Failure failure_;
  // Reused: as many as the most messages in flight so far.
  std::vector<std::unique_ptr<Outgoing>> all_;
  std::vector<Outgoing*> free_;
  size_t idleBundleBytes_ = 0;
};

}  // namespace hipress
