// SPDX-License-Identifier: Apache-2.0
//
// What the parts of the runtime report to each other about tasks and operations.
#pragma once

#include <string>

#include "core/casync/run/operation.h"

namespace hipress {

/// From the parts that carry out tasks to the scheduler.
class TaskEvents {
 public:
  virtual ~TaskEvents() = default;
  virtual void completed(const OperationPointer& operation, TaskIndex task) = 0;
  /// The task's error ends the job.
  virtual void failed(const Error& error) = 0;
  /// The connection to a rank broke.
  virtual void lost(int rank, const std::string& how) = 0;
};

/// From the scheduler to the engine.
class OperationEvents {
 public:
  virtual ~OperationEvents() = default;
  /// All its tasks are complete.
  virtual void done(const OperationPointer& operation) = 0;
  virtual void failed(const Error& error) = 0;
  virtual void lost(int rank, const std::string& how) = 0;
};

}  // namespace hipress
