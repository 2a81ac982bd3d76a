// SPDX-License-Identifier: Apache-2.0
//
// The tensors of this rank as the agreement changes them. `run` implements it.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "core/casync/graph/tensor.h"

namespace hipress {

/// A tensor that ranks have agreed on; see Engine::agree().
using TensorHandle = uint32_t;

/// Where a tensor's elements are in the tensor that is sent for it: itself, or the tensor of its group.
struct SentRange {
  std::shared_ptr<const Tensor> tensor;
  Partition range;
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
  virtual void remove(const std::set<TensorHandle>& handles) = 0;

  /// Throws InvalidArgument for an unknown handle, NotInitialized after shutdown().
  virtual std::shared_ptr<const Tensor> tensor(TensorHandle handle) const = 0;
  virtual bool isInFlight(TensorHandle handle) const = 0;
  virtual SentRange sentRange(TensorHandle handle) const = 0;
  /// The tensor of its group and all members; empty: it has none.
  virtual std::vector<TensorHandle> groupOf(TensorHandle handle) const = 0;
};

}  // namespace hipress
