// SPDX-License-Identifier: Apache-2.0
//
// Outgoing messages of one rank, alone and in bundles. For the progress thread only.
#pragma once

#include <memory>
#include <vector>

#include "core/transport/statistics.h"
#include "core/transport/transport.h"
#include "core/transport/ucx/ucx_envelope.h"
#include "core/transport/ucx/ucx_links.h"

namespace hipress {

class UcxOutbox {
 public:
  UcxOutbox(int rank, const UcxLinks& links, TransportStatistics& statistics)
      : rank_(rank), links_(links), statistics_(statistics) {}
  UcxOutbox(const UcxOutbox&) = delete;
  UcxOutbox& operator=(const UcxOutbox&) = delete;

  void send(SendRequest&& request);
  void sendBundle(BundleRequest&& request);

  /// What comes from here on ends with `failure`. What is in flight cannot be called back on shared-memory
  /// endpoints: it ends with finish().
  void fail(const Failure& failure) { failure_ = failure; }

  /// UCX touches nothing any more: what it still had ends with the failure.
  void finish();

 private:
  /// UCX keeps pointers into it until the message is out.
  struct Outgoing {
    UcxOutbox* outbox = nullptr;
    bool underway = false;
    int peer = 0;
    UcxEnvelope envelope;
    std::vector<std::byte> bundle;  // the bytes of one
    size_t messages = 1;
    size_t payloadBytes = 0;
    EndCallback onSent;
  };

  Outgoing& next(int peer, EndCallback&& onSent);
  void start(Outgoing& outgoing, std::span<const std::byte> bytes);
  void sent(Outgoing& outgoing, ucs_status_t status);

  const int rank_;
  const UcxLinks& links_;
  TransportStatistics& statistics_;
  Failure failure_;
  // Used again: as many as were ever in flight at a time.
  std::vector<std::unique_ptr<Outgoing>> all_;
  std::vector<Outgoing*> free_;
  size_t idleBundleBytes_ = 0;
};

}  // namespace hipress
