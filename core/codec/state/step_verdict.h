// SPDX-License-Identifier: Apache-2.0
//
// One step of a list of tensors whose states change together or not at all: a loss scaler leaves the whole
// step out if one of its averages is not finite.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <vector>

#include "core/base/mutex.h"
#include "core/codec/state/state_store.h"

namespace hipress {

/// Thread-safe.
class StepVerdict {
 public:
  /// An operation belongs to the step.
  void join();
  /// Its tasks are complete: their new states, either may be nullptr, wait for the verdict. `finite`: whether
  /// the result is. All ranks say the same, because the results are the same.
  void leave(std::shared_ptr<TensorStates> worker, std::shared_ptr<TensorStates> aggregator, bool finite);
  /// A tensor's next operation begins before the step's last one has left: its states do not wait any longer.
  void settleAlone(const std::shared_ptr<TensorStates>& states);
  /// No other operation joins. The last operation to leave, or this call, settles the states.
  void close();
  /// Whether all states are settled, and all results were finite.
  bool isKept() const;

 private:
  void settle() HIPRESS_REQUIRES(mutex_);

  mutable Mutex mutex_;
  size_t running_ HIPRESS_GUARDED_BY(mutex_) = 0;
  bool closed_ HIPRESS_GUARDED_BY(mutex_) = false;
  bool finite_ HIPRESS_GUARDED_BY(mutex_) = true;
  std::vector<std::shared_ptr<TensorStates>> states_ HIPRESS_GUARDED_BY(mutex_);
};

/// The steps of one list of tensors, one after the other. The caller has a lock.
class VerdictByStep {
 public:
  /// The step of the tensor's next operation. A step has each tensor once.
  const std::shared_ptr<StepVerdict>& join(uint32_t tensor);
  /// The next operation begins another step. Returns isKept() of the ended one; true if it had no operation.
  bool end();

 private:
  std::shared_ptr<StepVerdict> open_;
  std::set<uint32_t> tensors_;  // of the open step
};

}  // namespace hipress
