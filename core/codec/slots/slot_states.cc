// SPDX-License-Identifier: Apache-2.0
#include "core/codec/slots/slot_states.h"

#include <algorithm>
#include <utility>

#include "core/base/error.h"

namespace hipress {

void SlotStates::keep(std::span<const std::string> names, size_t count) {
  if (std::ranges::equal(names, names_)) {
    if (count == count_ || names.empty()) return;
  }
  if (!names_.empty() && count != count_) {
    throw Error(ErrorKind::kMismatch, "a partition of " + std::to_string(count) + " elements has states of " +
                                          std::to_string(count_) + " elements");
  }
  std::vector<std::array<Buffer, 2>> buffers;
  for (const std::string& name : names) {
    const auto old = std::ranges::find(names_, name);
    auto& pair = buffers.emplace_back();
    if (old != names_.end()) pair = std::move(buffers_[static_cast<size_t>(old - names_.begin())]);
    for (auto& buffer : pair) {
      if (buffer == nullptr) buffer = zeros(count);
    }
  }
  count_ = count;
  names_.assign(names.begin(), names.end());
  buffers_ = std::move(buffers);
  list();
}

void SlotStates::put(const std::string& name, std::span<const float> values) {
  if (!names_.empty() && values.size() != count_) {
    throw Error(ErrorKind::kMismatch, "state '" + name + "' has " + std::to_string(values.size()) +
                                          " elements, and another one of its partition " +
                                          std::to_string(count_));
  }
  count_ = values.size();
  auto place = std::ranges::find(names_, name);
  if (place == names_.end()) {
    buffers_.emplace_back();
    place = names_.insert(names_.end(), name);
  }
  for (auto& buffer : buffers_[static_cast<size_t>(place - names_.begin())]) {
    if (buffer == nullptr) buffer = zeros(count_);
    memory_->write(buffer.get(), values.data(), values.size_bytes());
  }
  list();
}

std::vector<float> SlotStates::values(size_t state) const {
  std::vector<float> copy(count_);
  memory_->read(before_[state], copy.data(), copy.size() * sizeof(float));
  return copy;
}

SlotStates::Buffer SlotStates::zeros(size_t count) const {
  // Devices have no blocks of no bytes.
  const size_t bytes = std::max<size_t>(count, 1) * sizeof(float);
  return {static_cast<float*>(memory_->allocateZeros(bytes)),
          [memory = memory_](float* block) { memory->free(block); }};
}

void SlotStates::exchange() {
  second_ = !second_;
  list();
}

void SlotStates::list() {
  before_.clear();
  after_.clear();
  for (auto& pair : buffers_) {
    before_.push_back(pair[second_ ? 1 : 0].get());
    after_.push_back(pair[second_ ? 0 : 1].get());
  }
}

void SlotChanges::undo() {
  for (const auto& states : changed_) states->exchange();
  changed_.clear();
}

std::shared_ptr<SlotStates> SlotStateTable::at(const std::string& key) {
  const std::lock_guard lock(mutex_);
  auto& states = states_[key];
  if (states == nullptr) states = std::make_shared<SlotStates>(memory_);
  return states;
}

std::vector<std::string> SlotStateTable::keys() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> keys;
  for (const auto& [key, states] : states_) keys.push_back(key);
  return keys;
}

}  // namespace hipress
