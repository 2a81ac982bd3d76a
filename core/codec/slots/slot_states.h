// SPDX-License-Identifier: Apache-2.0
//
// What codecs remember of the partitions that travel in slots (slot_plan.h), for an average over a process
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

#include "core/codec/codec.h"

namespace hipress {

/// The states of one partition. Two buffers for each: encode reads one and writes the other, and only a
/// success exchanges them.
class SlotStates {
 public:
  /// The states of one codec, of `count` elements. A state that was kept under the same name lives on,
  /// another one begins with zeros. Throws Mismatch if there are states of another number of elements.
  void keep(std::span<const std::string> names, size_t count);
  /// For encode; readable and writable until the next keep() or put().
  EncodeStates lists() const { return {before_, after_}; }
  /// The written values become the states; a second call takes that back.
  void exchange();

  std::span<const std::string> names() const { return names_; }
  std::span<const float> values(size_t state) const { return {before_[state], count_}; }
  void put(const std::string& name, std::span<const float> values);

 private:
  void list();

  size_t count_ = 0;
  std::vector<std::string> names_;
  std::vector<std::array<std::vector<float>, 2>> buffers_;
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

/// The states of all partitions, by key: whatever text the caller finds them again with. Its functions may be
/// called from several threads; the states of one partition are for one thread at a time.
class SlotStateTable {
 public:
  /// Made if they are new.
  std::shared_ptr<SlotStates> at(const std::string& key);
  std::vector<std::string> keys() const;

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::shared_ptr<SlotStates>> states_;
};

}  // namespace hipress
