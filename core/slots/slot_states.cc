// SPDX-License-Identifier: Apache-2.0
#include "core/slots/slot_states.h"

#include <algorithm>
#include <utility>

#include "core/base/error.h"

namespace hipress {

void SlotStates::keep(std::span<const CodecState> states, size_t count) {
  if (std::ranges::equal(states, states_) && (count == count_ || states.empty())) return;
  std::vector<std::array<Buffer, 2>> buffers;
  for (const CodecState& state : states) {
    const size_t old = find(state, count);
    auto& pair = buffers.emplace_back();
    if (old < states_.size()) pair = std::move(buffers_[old]);
    for (auto& buffer : pair) {
      if (buffer == nullptr) buffer = zeros(state.count(count));
    }
  }
  count_ = count;
  states_.assign(states.begin(), states.end());
  buffers_ = std::move(buffers);
  list();
}

void SlotStates::put(const CodecState& state, size_t count, std::span<const float> values) {
  const size_t place = find(state, count);
  if (values.size() != state.count(count)) {
    throw Error(ErrorKind::kMismatch, "state '" + state.name + "' has " + std::to_string(values.size()) +
                                          " elements, and its partition needs " +
                                          std::to_string(state.count(count)));
  }
  count_ = count;
  if (place == states_.size()) {
    buffers_.emplace_back();
    states_.push_back(state);
  }
  for (auto& buffer : buffers_[place]) {
    if (buffer == nullptr) buffer = zeros(values.size());
    memory_->write(buffer.get(), values.data(), values.size_bytes());
  }
  list();
}

size_t SlotStates::find(const CodecState& state, size_t count) const {
  if (!states_.empty() && count != count_) {
    throw Error(ErrorKind::kMismatch, "a partition of " + std::to_string(count) + " elements has states of " +
                                          std::to_string(count_) + " elements");
  }
  const auto place = std::ranges::find(states_, state.name, &CodecState::name);
  if (place != states_.end() && place->block != state.block) {
    throw Error(ErrorKind::kMismatch, "state '" + state.name + "' has one value for each " +
                                          std::to_string(place->block) +
                                          " elements, and the codec keeps one for each " +
                                          std::to_string(state.block) + "; give the state another name");
  }
  return static_cast<size_t>(place - states_.begin());
}

std::vector<float> SlotStates::values(size_t state) const {
  std::vector<float> copy(states_[state].count(count_));
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

std::vector<std::span<float>> SlotStates::places() const {
  std::vector<std::span<float>> places;
  for (size_t state = 0; state < states_.size(); ++state)
    places.emplace_back(buffers_[state][second_ ? 1 : 0].get(), states_[state].count(count_));
  return places;
}

std::vector<std::span<float>> SlotStateTable::places() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::span<float>> places;
  for (const auto& [key, states] : states_) {
    for (const std::span<float> place : states->places()) places.push_back(place);
  }
  return places;
}

}  // namespace hipress
