// SPDX-License-Identifier: Apache-2.0
//
// Pairs arrived messages with posted receives, in either order. Not thread-safe: each transport uses one
// matcher on its progress thread.
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
  /// Returns the message of this receive if it has arrived. Otherwise keeps the receive.
  std::optional<Arrived> post(RecvRequest& request) {
    const MessageKey key{request.peer, request.tag};
    std::optional<Arrived> message = arrived_.take(key);
    if (!message) posted_.add(key, std::move(request));
    return message;
  }

  /// Returns the posted receive of a message, if there is one.
  std::optional<RecvRequest> match(const MessageKey& key) { return posted_.take(key); }

  /// Keeps a message without a receive. Returns false if it has a message of the same key (a fault of the
  /// peer).
  bool keep(const MessageKey& key, Arrived message) { return arrived_.add(key, std::move(message)); }

  /// Whether the matcher keeps messages.
  bool keeps() const { return !arrived_.empty(); }

  std::vector<RecvRequest> takePosted() {
    return posted_.takeAll([](const MessageKey&) { return true; });
  }

  /// Removes and returns the receives of one link.
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
