// SPDX-License-Identifier: Apache-2.0
//
// join(): a rank whose data has ended takes part in the other ranks' all-reduces without values, until all
// ranks have joined. The others name each operation to it, because it does not know which ones they start.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/base/mutex.h"
#include "core/casync/run/operation.h"
#include "core/casync/run/tensor_table.h"
#include "core/control/control_plane.h"

namespace hipress {

/// The functions of the engine that it calls. The engine outlives the object.
struct JoiningCalls {
  std::function<TensorHandle(TensorSpec spec)> announce;
  std::function<void(TensorHandle tensor, Submission&& submission)> submit;
  std::function<void(const Error& error)> fail;
};

class Joining {
 public:
  Joining(ControlPlane& control, TensorTable& table, JoiningCalls calls)
      : control_(control), table_(table), calls_(std::move(calls)) {}

  /// See Engine::join(). No operation of a caller is in flight.
  int join();

  /// A caller's operation has started and has its number.
  void started(const OperationPointer& operation);

  /// The notices kJoined and kDemand.
  void hear(const ControlNotice& notice);

 private:
  struct Demand {
    uint32_t tensor;
    uint32_t step;
    std::string text;
  };

  void joined(int rank, uint32_t round);
  void demanded(const Demand& demand);
  std::vector<int> joinedAmong(const Tensor& tensor, int& lowest) const HIPRESS_REQUIRES(mutex_);
  std::string nameOf(const Demand& demand) const;
  void serve(const std::string& name, const Demand& demand);
  void submit(TensorHandle handle, const std::string& name);
  void ended(const std::string& name);

  ControlPlane& control_;
  TensorTable& table_;
  const JoiningCalls calls_;
  mutable Mutex mutex_;
  std::map<int, uint32_t> joined_ HIPRESS_GUARDED_BY(mutex_);  // other ranks, with their round
  uint32_t endedRound_ HIPRESS_GUARDED_BY(mutex_) = 0;
  std::set<uint32_t> once_ HIPRESS_GUARDED_BY(mutex_);  // tensors for one use that it has served
  /// By the name of the tensor, of which one operation runs at a time: the demands behind the running one.
  std::map<std::string, std::deque<Demand>> waiting_ HIPRESS_GUARDED_BY(mutex_);
  ConditionVariable served_;  // waiting_ is empty
};

}  // namespace hipress
