// SPDX-License-Identifier: Apache-2.0
//
// Pairs messages that arrived with receives that were posted, whichever came first. Not thread-safe: each
// transport uses one on its progress thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "core/transport/transport.h"

namespace hipress {

struct MessageKey {
  int peer = 0;
  MessageTag tag;
  auto operator<=>(const MessageKey&) const = default;
};

template <typename Arrived>
class Matcher {
 public:
  /// The message this receive waits for, if it is here already; else the receive is kept.
  std::optional<Arrived> post(RecvRequest& request) {
    const MessageKey key{request.peer, request.tag};
    if (auto found = arrived_.find(key); found != arrived_.end()) {
      Arrived message = std::move(found->second);
      arrived_.erase(found);
      return message;
    }
    posted_.emplace(key, std::move(request));
    return std::nullopt;
  }

  /// The receive that waits for this message, if there is one.
  std::optional<RecvRequest> match(const MessageKey& key) {
    const auto found = posted_.find(key);
    if (found == posted_.end()) return std::nullopt;
    RecvRequest request = std::move(found->second);
    posted_.erase(found);
    return request;
  }

  /// Keeps a message nobody waits for yet. False if one with the same key is kept already (the peer is at
  /// fault).
  bool keep(const MessageKey& key, Arrived message) {
    return arrived_.emplace(key, std::move(message)).second;
  }

  std::vector<RecvRequest> takePosted() {
    std::vector<RecvRequest> all;
    for (auto& [key, request] : posted_) all.push_back(std::move(request));
    posted_.clear();
    return all;
  }

  std::vector<Arrived> takeArrived() {
    std::vector<Arrived> all;
    for (auto& [key, message] : arrived_) all.push_back(std::move(message));
    arrived_.clear();
    return all;
  }

 private:
  std::map<MessageKey, RecvRequest> posted_;
  std::map<MessageKey, Arrived> arrived_;
};

}  // namespace hipress
