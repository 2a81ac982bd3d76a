// SPDX-License-Identifier: Apache-2.0
//
// The codec states of the partitions that travel in slots (slot.h), for an average over a process
// group. The engine's states are in codec/state, by tensor and plan; here each partition stands alone, so
// that a framework may form other groups of tensors in every step.
#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/base/memory.h"
#include "core/codec/codec.h"

namespace hipress {

/// The states of one partition. Each state has two buffers: encode reads one and writes the other, and only a
/// successful encode exchanges them. The other buffer then has the values from before the step
/// (slot_changes.h).
class SlotStates {
 public:
  /// `memory`: of the processor, or of a device that encodes.
  explicit SlotStates(std::shared_ptr<Memory> memory) : memory_(std::move(memory)) {}

  /// Sets the states of one codec for a partition of `count` elements. A state with a known name keeps its
  /// values; a new state has zeros. Throws Mismatch if existing states are for another number of elements, or
  /// have other blocks.
  void keep(std::span<const CodecState> states, size_t count);
  /// The lists for encode(), valid until the next keep() or put().
  EncodeStates lists() const { return {before_, after_}; }
  /// Makes the written values the states; a second call undoes the first.
  void exchange();

  std::span<const CodecState> states() const { return states_; }
  size_t count() const { return count_; }  ///< Elements of the partition.
  /// A copy for the processor. No work on the states is under way.
  std::vector<float> values(size_t state) const;
  /// Sets a state of a partition of `count` elements. Throws Mismatch as keep(), and if the number of values
  /// is another one.
  void put(const CodecState& state, size_t count, std::span<const float> values);
  /// Where the values of the states are, until the next exchange(), keep() or put().
  std::vector<std::span<float>> places() const;

 private:
  using Buffer = std::shared_ptr<float>;

  /// The number of a state; states().size() if it is new.
  size_t find(const CodecState& state, size_t count) const;
  Buffer zeros(size_t count) const;
  void list();

  std::shared_ptr<Memory> memory_;
  size_t count_ = 0;
  std::vector<CodecState> states_;
  std::vector<std::array<Buffer, 2>> buffers_;
  bool second_ = false;  ///< The second buffers have the states.
  std::vector<const float*> before_;
  std::vector<float*> after_;
};

/// The states of all partitions; the key is a text of the caller's choice. Several threads may call the
/// functions, but only one thread at a time may use the states of one partition.
class SlotStateTable {
 public:
  explicit SlotStateTable(std::shared_ptr<Memory> memory = hostMemory) : memory_(std::move(memory)) {}

  /// Returns the states of a key. A new key gets new, empty states.
  std::shared_ptr<SlotStates> at(const std::string& key);
  std::vector<std::string> keys() const;
  /// SlotStates::places() of all keys. No work on the states is under way.
  std::vector<std::span<float>> places() const;

 private:
  std::shared_ptr<Memory> memory_;
  mutable std::mutex mutex_;
  std::map<std::string, std::shared_ptr<SlotStates>> states_;
};

}  // namespace hipress
