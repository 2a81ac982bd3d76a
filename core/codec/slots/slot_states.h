// SPDX-License-Identifier: Apache-2.0
//
// The codec states of the partitions that travel in slots (slot_blocks.h), for an average over a process
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

/// The states of one partition. Two buffers for each: encode reads one and writes the other, and only a
/// success exchanges them.
class SlotStates {
 public:
  /// `memory`: of the processor, or of a device that encodes.
  explicit SlotStates(std::shared_ptr<Memory> memory) : memory_(std::move(memory)) {}

  /// The states of one codec, of `count` elements. A state that was kept under the same name lives on,
  /// another one begins with zeros. Throws Mismatch if there are states of another number of elements.
  void keep(std::span<const std::string> names, size_t count);
  /// For encode; readable and writable until the next keep() or put().
  EncodeStates lists() const { return {before_, after_}; }
  /// The written values become the states; a second call takes that back.
  void exchange();

  std::span<const std::string> names() const { return names_; }
  size_t count() const { return count_; }
  /// A copy for the processor. No work on the states is under way.
  std::vector<float> values(size_t state) const;
  void put(const std::string& name, std::span<const float> values);

 private:
  using Buffer = std::shared_ptr<float>;

  Buffer zeros(size_t count) const;
  void list();

  std::shared_ptr<Memory> memory_;
  size_t count_ = 0;
  std::vector<std::string> names_;
  std::vector<std::array<Buffer, 2>> buffers_;
  bool second_ = false;  ///< The states are in the second buffers.
  std::vector<const float*> before_;
  std::vector<float*> after_;
};

/// States that encoding has changed; undo() of a step that has failed takes that back.
class SlotChanges {
 public:
  void add(std::shared_ptr<SlotStates> states) { changed_.push_back(std::move(states)); }
  void undo();

 private:
  std::vector<std::shared_ptr<SlotStates>> changed_;
};

/// The states of all partitions, by key: a text by which the caller finds them again. Its functions may be
/// called from several threads; the states of one partition are for one thread at a time.
class SlotStateTable {
 public:
  explicit SlotStateTable(std::shared_ptr<Memory> memory = hostMemory) : memory_(std::move(memory)) {}

  /// Made if they are new.
  std::shared_ptr<SlotStates> at(const std::string& key);
  std::vector<std::string> keys() const;

 private:
  std::shared_ptr<Memory> memory_;
  mutable std::mutex mutex_;
  std::map<std::string, std::shared_ptr<SlotStates>> states_;
};

}  // namespace hipress
