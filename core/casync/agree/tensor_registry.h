// SPDX-License-Identifier: Apache-2.0
//
// The interface through which the agreement changes this rank's tensors. `run` implements it.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "core/casync/agree/sent_states.h"
#include "core/casync/graph/tensor.h"

namespace hipress {

/// This rank's handle of a tensor: its number, which all ranks have agreed on, or, for an announced tensor, a
/// number of this rank's own from kTensorNumbers on. See Engine::agree() and announce().
using TensorHandle = uint32_t;

/// The inputs of an encode that change from step to step.
struct SentSteps {
  uint32_t next = 0;          ///< The number of the next step.
  uint32_t randomTensor = 0;  ///< The number in the key of its random values.
};

class TensorRegistry {
 public:
  virtual ~TensorRegistry() = default;
  /// Throws the error that ended the job, or NotInitialized. `doing`: the caller's action, for the message.
  virtual void throwIfEnded(const std::string& doing) const = 0;
  /// Plans the tensor and enters it under the agreed number. A tensor that is entered again keeps its number
  /// of steps, so that tags stay unique. Throws InvalidArgument, Unsupported.
  virtual void enter(TensorHandle number, TensorSpec spec) = 0;
  /// From now on these tensors travel as the tensor `together`, in this order.
  virtual void enterGroup(TensorHandle together, const std::vector<TensorHandle>& members) = 0;
  /// From now on the tensor travels as these two linked tensors.
  virtual void enterLinked(TensorHandle tensor, TensorHandle first, TensorHandle second) = 0;
  /// The linked tensors; empty: the tensor travels by itself.
  virtual std::vector<TensorHandle> linkedOf(TensorHandle handle) const = 0;
  virtual void remove(const std::set<TensorHandle>& handles) = 0;

  /// Throws InvalidArgument for an unknown handle, NotInitialized after shutdown().
  virtual std::shared_ptr<const Tensor> tensor(TensorHandle handle) const = 0;
  virtual bool isInFlight(TensorHandle handle) const = 0;
  virtual SentRange sentRange(TensorHandle handle) const = 0;
  /// The group's tensor and all members; empty: the tensor is in no group.
  virtual std::vector<TensorHandle> groupOf(TensorHandle handle) const = 0;
  virtual SentSteps steps(TensorHandle handle) const = 0;
  /// All ranks call it, while the tensor is not in flight.
  virtual void setSteps(TensorHandle handle, const SentSteps& steps) = 0;
};

}  // namespace hipress
