// SPDX-License-Identifier: Apache-2.0
//
// Pairs messages that arrived with receives that were posted, whichever came first. Not thread-safe: each
// transport uses one on its progress thread.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "core/transport/message_table.h"
#include "core/transport/transport.h"

namespace hipress {

template <typename Arrived>
class Matcher {
 public:
  /// The message this receive waits for, if it is here already; else the receive is kept.
  std::optional<Arrived> post(RecvRequest& request) {
    const MessageKey key{request.peer, request.tag};
    std::optional<Arrived> message = arrived_.take(key);
    if (!message) posted_.add(key, std::move(request));
    return message;
  }

  /// The receive that waits for this message, if there is one.
  std::optional<RecvRequest> match(const MessageKey& key) { return posted_.take(key); }

  /// Keeps a message without a receive. False if one with the same key is kept already (the peer is at
  /// fault).
  bool keep(const MessageKey& key, Arrived message) { return arrived_.add(key, std::move(message)); }

  /// Whether messages are kept.
  bool keeps() const { return !arrived_.empty(); }

  std::vector<RecvRequest> takePosted() {
    return posted_.takeAll([](const MessageKey&) { return true; });
  }

  /// The receives of one link.
  std::vector<RecvRequest> takePosted(int peer) {
    return posted_.takeAll([peer](const MessageKey& key) { return key.peer == peer; });
  }

  std::vector<Arrived> takeArrived() {
    return arrived_.takeAll([](const MessageKey&) { return true; });
  }

 private:
  MessageTable<RecvRequest> posted_;
  MessageTable<Arrived> arrived_;
};

}  // namespace hipress
