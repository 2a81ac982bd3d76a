// SPDX-License-Identifier: Apache-2.0
//
// A table of messages without a receive, or of receives without a message, by key. A new entry uses the
// memory of a removed one: once a table has had its largest number of entries, it allocates nothing. Not
// thread-safe.
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
    // Numbers that count up differ in few bits. Two odd constants spread the difference over all bits.
    const uint64_t mixed = name * 0x9e3779b97f4a7c15u + place * 0xc2b2ae3d27d4eb4fu;
    return static_cast<size_t>(mixed ^ mixed >> 32);
  }
};

template <typename Value>
class MessageTable {
 public:
  MessageTable() {
    entries_.reserve(kRoom);
    spares_.reserve(kRoom);
  }

  bool empty() const { return entries_.empty(); }

  /// Adds an entry. Returns false, and keeps nothing, if the key has an entry already.
  bool add(const MessageKey& key, Value&& value) {
    if (spares_.empty()) return entries_.try_emplace(key, std::move(value)).second;
    Node node = std::move(spares_.back());
    spares_.pop_back();
    node.key() = key;
    node.mapped() = std::move(value);
    auto inserted = entries_.insert(std::move(node));
    if (inserted.inserted) return true;
    recycle(std::move(inserted.node));
    return false;
  }

  /// Removes and returns the entry of a key.
  std::optional<Value> take(const MessageKey& key) {
    const auto found = entries_.find(key);
    if (found == entries_.end()) return std::nullopt;
    Node node = entries_.extract(found);
    std::optional<Value> value(std::move(node.mapped()));
    recycle(std::move(node));
    return value;
  }

  /// Removes and returns all entries for whose keys `chosen` is true.
  template <typename Chosen>
  std::vector<Value> takeAll(const Chosen& chosen) {
    std::vector<Value> all;
    for (auto entry = entries_.begin(); entry != entries_.end();) {
      if (!chosen(entry->first)) {
        ++entry;
        continue;
      }
      all.push_back(std::move(entry->second));
      entry = entries_.erase(entry);
    }
    return all;
  }

 private:
  using Entries = std::unordered_map<MessageKey, Value, MessageKeyHash>;
  using Node = typename Entries::node_type;
  static constexpr size_t kRoom = 1024;  // entries at a time for which no memory is allocated

  void recycle(Node&& node) {
    node.mapped() = Value();  // frees the value's resources now
    if (spares_.size() < kRoom) spares_.push_back(std::move(node));
  }

  Entries entries_;
  std::vector<Node> spares_;
};

}  // namespace hipress
