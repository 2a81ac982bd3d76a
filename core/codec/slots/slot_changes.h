// SPDX-License-Identifier: Apache-2.0
//
// The states that the averages of one step change, and whether the step counts. A loss scaler discards a step
// with an average that is not finite, on all ranks; then all states have to be what they were before the
// step, also on ranks and of tensors whose values were finite. The results tell: all ranks get the same ones,
// so all come to the same verdict.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "core/codec/slots/slot_states.h"

namespace hipress {

/// Thread-safe. Averages of a step note here what they change; settle() comes between the last use of states
/// in one step and the first use in the next one.
class SlotChanges {
 public:
  /// `keepsStates`: whether any tensor of the average has a codec with states. Otherwise nobody looks whether
  /// averages are finite.
  explicit SlotChanges(bool keepsStates = true) : keepsStates_(keepsStates) {}

  bool keepsStates() const { return keepsStates_; }
  /// An encode has exchanged the states of this key.
  void add(const std::string& key, std::shared_ptr<SlotStates> states);
  /// No rank had a gradient for the states' elements: the states become what they were before the step. No
  /// other work uses them.
  void restore(const std::string& key);
  /// The step does not count: an average of it is not finite, or failed.
  void discard();
  bool discarded() const;
  /// Ends the step: if it does not count, all states become what they were before it. Returns whether it does
  /// not count.
  bool settle();

 private:
  const bool keepsStates_;
  mutable std::mutex mutex_;
  std::map<std::string, std::shared_ptr<SlotStates>> changed_;  ///< By key.
  bool discarded_ = false;
};

}  // namespace hipress
