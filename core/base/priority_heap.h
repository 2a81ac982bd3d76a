// SPDX-License-Identifier: Apache-2.0
//
// Entries by priority. Entries of the same priority leave in the order of their numbers, which the owner of
// the heap assigns.
#pragma once

#include <cstdint>
#include <queue>

namespace hipress {

template <typename Value>
struct Prioritised {
  int priority = 0;
  uint64_t number = 0;
  Value value{};

  /// Whether the other entry leaves first.
  bool operator<(const Prioritised& other) const {
    return priority != other.priority ? priority < other.priority : number > other.number;
  }
};

/// top() is the entry that leaves first.
template <typename Value>
using PriorityHeap = std::priority_queue<Prioritised<Value>>;

}  // namespace hipress
