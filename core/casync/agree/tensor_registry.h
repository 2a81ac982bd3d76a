// SPDX-License-Identifier: Apache-2.0
//
// The tensors of this rank as the agreement changes them. `run` implements it.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "core/casync/agree/sent_states.h"
#include "core/casync/graph/tensor.h"

namespace hipress {

/// A tensor that ranks have agreed on; see Engine::agree().
using TensorHandle = uint32_t;

/// How far a tensor is, in what encoding depends on.
struct SentSteps {
  uint32_t next = 0;          ///< Number of its next step.
  uint32_t randomTensor = 0;  ///< Number in place of the tensor's in the key of its random values.
};

class TensorRegistry {
 public:
  virtual ~TensorRegistry() = default;
  /// Throws the error that ended the job, or NotInitialized with what the caller is `doing`.
  virtual void throwIfEnded(const std::string& doing) const = 0;
  /// Plans the tensor and enters it under the number on which ranks have agreed. A tensor that is entered
  /// again keeps its number of steps, so that tags stay unique. Throws InvalidArgument, Unsupported.
  virtual void enter(TensorHandle number, TensorSpec spec) = 0;
  /// From now on these tensors are sent as the tensor `together`, in this order.
  virtual void enterGroup(TensorHandle together, const std::vector<TensorHandle>& members) = 0;
  /// From now on the tensor is sent as these two.
  virtual void enterLinked(TensorHandle tensor, TensorHandle first, TensorHandle second) = 0;
  /// The linked tensors; empty: it is not sent so.
  virtual std::vector<TensorHandle> linkedOf(TensorHandle handle) const = 0;
  virtual void remove(const std::set<TensorHandle>& handles) = 0;

  /// Throws InvalidArgument for an unknown handle, NotInitialized after shutdown().
  virtual std::shared_ptr<const Tensor> tensor(TensorHandle handle) const = 0;
  virtual bool isInFlight(TensorHandle handle) const = 0;
  virtual SentRange sentRange(TensorHandle handle) const = 0;
  /// The tensor of its group and all members; empty: it has none.
  virtual std::vector<TensorHandle> groupOf(TensorHandle handle) const = 0;
  virtual SentSteps steps(TensorHandle handle) const = 0;
  /// On all ranks, while the tensor is not in flight.
  virtual void setSteps(TensorHandle handle, const SentSteps& steps) = 0;
};

}  // namespace hipress
