// SPDX-License-Identifier: Apache-2.0
//
// Pairs messages that arrived with receives that were posted, whichever came first. Not thread-safe: each
// transport uses one on its progress thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/transport/transport.h"

namespace hipress {

struct MessageKey {
  int peer = 0;
  MessageTag tag;
  bool operator==(const MessageKey&) const = default;
};

struct MessageKeyHash {
  size_t operator()(const MessageKey& key) const {
    const uint64_t name = uint64_t{key.tag.tensor} << 32 | key.tag.step;
    const uint64_t place =
        uint64_t{static_cast<uint32_t>(key.peer)} << 32 | uint64_t{key.tag.partition} << 16 | key.tag.hop;
    // Numbers that count up differ in few bits: two odd constants spread them over all.
    const uint64_t mixed = name * 0x9e3779b97f4a7c15u + place * 0xc2b2ae3d27d4eb4fu;
    return static_cast<size_t>(mixed ^ mixed >> 32);
  }
};

template <typename Arrived>
class Matcher {
 public:
  Matcher() {
    posted_.reserve(kRoom);
    arrived_.reserve(kRoom);
  }

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
    return takePosted([](const MessageKey&) { return true; });
  }

  /// Those of one link.
  std::vector<RecvRequest> takePosted(int peer) {
    return takePosted([peer](const MessageKey& key) { return key.peer == peer; });
  }

  std::vector<Arrived> takeArrived() {
    std::vector<Arrived> all;
    for (auto& [key, message] : arrived_) all.push_back(std::move(message));
    arrived_.clear();
    return all;
  }

 private:
  static constexpr size_t kRoom = 1024;  // messages expected at a time, before a table grows

  template <typename Chosen>
  std::vector<RecvRequest> takePosted(const Chosen& chosen) {
    std::vector<RecvRequest> all;
    for (auto entry = posted_.begin(); entry != posted_.end();) {
      if (!chosen(entry->first)) {
        ++entry;
        continue;
      }
      all.push_back(std::move(entry->second));
      entry = posted_.erase(entry);
    }
    return all;
  }

  std::unordered_map<MessageKey, RecvRequest, MessageKeyHash> posted_;
  std::unordered_map<MessageKey, Arrived, MessageKeyHash> arrived_;
};

}  // namespace hipress
