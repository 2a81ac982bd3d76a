// SPDX-License-Identifier: Apache-2.0
//
// The operations in flight as failure detection sees them. `run` implements these interfaces.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "core/base/failure.h"
#include "core/base/time.h"

namespace hipress {

/// What an operation waits for, at one moment.
struct Wait {
  std::string name;  ///< Of the tensor.
  uint32_t tensor = 0;
  uint32_t step = 0;
  /// How many messages must be received before the nearest missing message can be sent; 1 if none is missing.
  int depth = 1;
  std::set<int> late;       ///< Ranks whose nearest message has not arrived.
  std::vector<int> unsent;  ///< Ranks to which a message has not been sent.
  std::string missing;      ///< Tensors of its group that this rank has not submitted; empty: none.
  std::string group;        ///< The name of that group.
  std::string device;       ///< What a device has to do for it; empty: nothing.
};

class AwaitedOperation {
 public:
  virtual ~AwaitedOperation() = default;
  virtual Clock::time_point submitted() const = 0;
  virtual bool finished() const = 0;
  virtual Wait wait() const = 0;
  /// The operation that carries its values, if its group or a factor has started; otherwise nullptr.
  virtual std::shared_ptr<const AwaitedOperation> carrier() const = 0;
};

class OperationsInFlight {
 public:
  virtual ~OperationsInFlight() = default;
  virtual std::vector<std::shared_ptr<const AwaitedOperation>> unfinished() const = 0;
  /// Whether this rank has submitted the tensor's step.
  virtual bool hasSubmitted(uint32_t tensor, uint32_t step) const = 0;
  virtual void endAll(const Failure& failure) = 0;
  /// Ranks disagree on the tensor: ends its operation and refuses later ones.
  virtual void endConflicting(uint32_t tensor, const Failure& failure) = 0;
};

}  // namespace hipress
