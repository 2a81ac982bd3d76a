// SPDX-License-Identifier: Apache-2.0
#include "core/codec/slots/slot_changes.h"

#include <utility>

namespace hipress {

void SlotChanges::add(const std::string& key, std::shared_ptr<SlotStates> states) {
  const std::lock_guard lock(mutex_);
  // Of a second change in one step only the first one's old values would be from before the step.
  changed_.insert_or_assign(key, std::move(states));
}

void SlotChanges::restore(const std::string& key) {
  const std::lock_guard lock(mutex_);
  const auto found = changed_.find(key);
  if (found == changed_.end()) return;
  found->second->exchange();
  changed_.erase(found);
}

void SlotChanges::discard() {
  const std::lock_guard lock(mutex_);
  discarded_ = true;
}

bool SlotChanges::discarded() const {
  const std::lock_guard lock(mutex_);
  return discarded_;
}

bool SlotChanges::settle() {
  const std::lock_guard lock(mutex_);
  if (discarded_) {
    for (const auto& [key, states] : changed_) states->exchange();
  }
  changed_.clear();
  return std::exchange(discarded_, false);
}

}  // namespace hipress
