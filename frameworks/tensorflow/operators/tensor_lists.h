// SPDX-License-Identifier: Apache-2.0
//
// The lists of tensors that this process' graphs synchronise. A traced graph names its list by a number,
// which stays when the list's handles change with another codec: graphs need not be traced again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "core/casync/engine.h"

namespace hipress::tensorflow_operators {

/// One list. Thread-safe.
class TensorList {
 public:
  /// Of this process' current engine. Throws NotInitialized.
  explicit TensorList(std::vector<TensorHandle> handles);

  /// After the ranks have agreed on other codecs.
  void setHandles(std::vector<TensorHandle> handles);

  /// Throws InvalidArgument for an index that the list does not have, NotInitialized if the engine of the
  /// list is not the current one any more.
  TensorHandle handle(size_t index) const;

  /// One of `count` gradients of a step has been computed. The span from the first to the last is the trace's
  /// "backward".
  void computed(size_t count);

  /// What an earlier codec held back of a tensor joins its next values (float32).
  void holdBack(size_t index, std::vector<float> values);
  /// It is the caller's from here on; nearly always empty.
  std::vector<float> takeHeldBack(size_t index);

 private:
  const std::weak_ptr<Engine> engine_;
  mutable std::mutex mutex_;
  std::vector<TensorHandle> handles_;
  std::map<size_t, std::vector<float>> heldBack_;
  size_t computed_ = 0;  // of this step's gradients
  int64_t firstNs_ = 0;
};

/// Makes the list `number`, or gives it other handles.
void defineTensorList(int64_t number, std::vector<TensorHandle> handles);
/// Throws InvalidArgument if there is none.
std::shared_ptr<TensorList> tensorList(int64_t number);
/// The number is free again; a graph that still uses it gets InvalidArgument.
void forgetTensorList(int64_t number);

}  // namespace hipress::tensorflow_operators
