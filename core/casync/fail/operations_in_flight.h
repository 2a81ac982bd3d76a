// SPDX-License-Identifier: Apache-2.0
//
// The operations in flight, as failure detection sees them. `run` implements these interfaces.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "core/base/failure.h"
#include "core/base/process_set.h"
#include "core/base/time.h"

namespace hipress {

/// The events for which an operation waits at one moment.
struct Wait {
  std::string name;  ///< The tensor's name.
  uint32_t tensor = 0;
  uint32_t step = 0;
  /// The number of messages in a row before the nearest missing message can be sent; 1: none is missing.
  int depth = 1;
  std::set<int> late;       ///< Ranks whose nearest message has not arrived.
  std::vector<int> unsent;  ///< Ranks to which a message has not been sent.
  std::string missing;      ///< Members of its group that this rank has not submitted; empty: none.
  std::string group;        ///< The name of the group.
  std::string device;       ///< The task that its device has not done; empty: none.
  bool unnumbered = false;  ///< Rank 0 has not told the tensor's number yet.
};

class AwaitedOperation {
 public:
  virtual ~AwaitedOperation() = default;
  virtual Clock::time_point submitted() const = 0;
  virtual bool finished() const = 0;
  virtual Wait wait() const = 0;
  /// The ranks whose departure may have stopped it.
  virtual const ProcessSet& among() const = 0;
  /// The operation that carries the values, if the group or a factor has started; otherwise nullptr.
  virtual std::shared_ptr<const AwaitedOperation> carrier() const = 0;
};

class OperationsInFlight {
 public:
  virtual ~OperationsInFlight() = default;
  virtual std::vector<std::shared_ptr<const AwaitedOperation>> unfinished() const = 0;
  /// Whether this rank has submitted the step of the tensor.
  virtual bool hasSubmitted(uint32_t tensor, uint32_t step) const = 0;
  virtual void endAll(const Failure& failure) = 0;
  /// A conflict about the tensor: ends its operation and rejects later ones.
  virtual void endConflicting(uint32_t tensor, const Failure& failure) = 0;
};

}  // namespace hipress
