// SPDX-License-Identifier: Apache-2.0
//
// The lists of arrays that this process synchronises step after step, by number.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "core/casync/run/current_engine.h"
#include "frameworks/operators/kept_error.h"

namespace hipress::mxnet_operators {

/// Whether the engine runs. After its end MXNet begins no operation that uses the failed arrays.
inline bool engineRuns() {
  return guarded([] { currentEngine()->throwIfFailed("handing over gradients"); }, [](const Error&) {});
}

/// A list of arrays: its Python object and its operations share it.
///
/// It knows the arrays that MXNet did not begin because an operation of this rank before them had failed, in
/// the first step with such arrays.
class ArrayList {
 public:
  ArrayList() = default;
  ArrayList(const ArrayList&) = delete;
  ArrayList& operator=(const ArrayList&) = delete;
  /// No operation is left: frees what the engine keeps of the tensors, if it is still their engine.
  ~ArrayList() {
    guarded(
        [this] {
          if (!ended_.empty() && engine_.lock() == currentEngine()) currentEngine()->forget(ended_);
        },
        [](const Error&) {});
  }

  /// The Python object has ended.
  void end(std::vector<TensorHandle> tensors) {
    const std::lock_guard lock(mutex_);
    ended_ = std::move(tensors);
  }

  void note(int64_t step) {
    const std::lock_guard lock(mutex_);
    if (count_ == 0 || step < step_) {
      step_ = step;
      count_ = 0;
    }
    if (step == step_) ++count_;
  }

  /// Returns the number of the arrays, and their step.
  std::pair<int64_t, int64_t> seen() const {
    const std::lock_guard lock(mutex_);
    return {count_, step_};
  }

 private:
  const std::weak_ptr<Engine> engine_ = currentEngine();
  std::vector<TensorHandle> ended_;
  mutable std::mutex mutex_;
  int64_t step_ = 0;
  int64_t count_ = 0;
};

using ArrayListPointer = std::shared_ptr<ArrayList>;

struct ArrayLists {
  std::mutex mutex;
  std::map<int64_t, ArrayListPointer> byNumber;
};

inline ArrayLists& arrayLists() {
  static auto* lists = new ArrayLists;  // operations may run while the process ends
  return *lists;
}

/// Makes the list with the first operation.
inline ArrayListPointer arrayList(int64_t number) {
  const std::lock_guard lock(arrayLists().mutex);
  ArrayListPointer& list = arrayLists().byNumber[number];
  if (list == nullptr) list = std::make_shared<ArrayList>();
  return list;
}

/// nullptr: no operation of the list was pushed.
inline ArrayListPointer knownArrayList(int64_t number) {
  const std::lock_guard lock(arrayLists().mutex);
  const auto found = arrayLists().byNumber.find(number);
  return found == arrayLists().byNumber.end() ? nullptr : found->second;
}

/// Frees the number. Returns the list, as knownArrayList() does.
inline ArrayListPointer takeArrayList(int64_t number) {
  const std::lock_guard lock(arrayLists().mutex);
  auto node = arrayLists().byNumber.extract(number);
  return node ? std::move(node.mapped()) : nullptr;
}

}  // namespace hipress::mxnet_operators
