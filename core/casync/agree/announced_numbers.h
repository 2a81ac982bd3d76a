// SPDX-License-Identifier: Apache-2.0
//
// The numbers of announced tensors, which rank 0 tells after the tensors have their handles. A conflict about
// a number may be told before the number itself. The caller has a lock.
#pragma once

#include <algorithm>
#include <cstdint>
#include <unordered_map>
#include <utility>

#include "core/base/failure.h"
#include "core/casync/agree/tensor_registry.h"
#include "core/control/control_plane.h"

namespace hipress {

class AnnouncedNumbers {
 public:
  /// A handle that no number is equal to. It comes again after 2^31 handles.
  TensorHandle nextHandle() { return last_ = std::max(last_ + 1, kTensorNumbers); }

  void add(uint32_t number, TensorHandle handle) { handles_[number] = handle; }
  void remove(uint32_t number) { handles_.erase(number); }
  /// The handle of the tensor that other ranks call `number`.
  TensorHandle handleOf(uint32_t number) const {
    const auto found = handles_.find(number);
    return found == handles_.end() ? number : found->second;
  }

  /// Keeps a conflict until this rank knows the number.
  void keepConflict(uint32_t number, const Failure& failure) { early_[number] = failure; }
  /// Returns nullptr if there is none.
  Failure takeConflict(uint32_t number) {
    auto early = early_.extract(number);
    return early ? std::move(early.mapped()) : nullptr;
  }

 private:
  std::unordered_map<uint32_t, TensorHandle> handles_;  // by number
  std::unordered_map<uint32_t, Failure> early_;         // by number
  TensorHandle last_ = kTensorNumbers - 1;
};

}  // namespace hipress
