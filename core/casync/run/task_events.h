// SPDX-License-Identifier: Apache-2.0
//
// The reports of the runtime's parts about tasks and operations.
#pragma once

#include <string>

#include "core/casync/run/operation.h"

namespace hipress {

/// Reports of the computation and the transfers to the scheduler.
class TaskEvents {
 public:
  virtual ~TaskEvents() = default;
  virtual void completed(const OperationPointer& operation, TaskIndex task) = 0;
  /// A task has failed: its error ends the job.
  virtual void failed(const Error& error) = 0;
  /// The connection with a rank broke.
  virtual void lost(int rank, const std::string& how) = 0;
};

/// Reports of the scheduler to the engine.
class OperationEvents {
 public:
  virtual ~OperationEvents() = default;
  /// All tasks of the operation are complete.
  virtual void done(const OperationPointer& operation) = 0;
  virtual void failed(const Error& error) = 0;
  virtual void lost(int rank, const std::string& how) = 0;
};

}  // namespace hipress
