// SPDX-License-Identifier: Apache-2.0
//
// The end of an asynchronous kernel that waits for several operations of the engine.
#pragma once

#include <tensorflow/core/framework/op_kernel.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <utility>

#include "core/casync/run/operation.h"
#include "frameworks/tensorflow/operators/operator_names.h"
#include "frameworks/tensorflow/operators/status.h"

namespace hipress::tensorflow_operators {

/// Calls `done` when all announced operations have ended, with the status of the first failure. After that
/// neither the kernel nor its context exists.
class Completion : public std::enable_shared_from_this<Completion> {
 public:
  /// `names`: the operations' names, taken until the last operation has ended.
  Completion(tensorflow::OpKernelContext* context, tensorflow::AsyncOpKernel::DoneCallback done,
             int operations, std::shared_ptr<NamesInFlight> names = nullptr)
      : context_(context), done_(std::move(done)), remaining_(operations), names_(std::move(names)) {}

  void ended(const absl::Status& status) {
    if (!status.ok()) {
      const std::lock_guard lock(mutex_);
      status_.Update(status);
    }
    if (remaining_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
    if (!status_.ok()) context_->SetStatus(status_);
    names_.reset();  // work that runs after `done` may use the names
    const auto done = std::move(done_);
    done();
  }

  /// Starts one of the operations. An error ends it.
  template <typename Start>
  void guarded(Start start) {
    hipress::guarded(std::move(start), [this](const Error& error) { ended(statusOf(error)); });
  }

  /// For Submission::onDone.
  OnDone onDone() {
    return [self = shared_from_this()](const Failure& failure, bool /*absent*/) {
      self->ended(failure ? statusOf(*failure) : absl::OkStatus());
    };
  }

 private:
  tensorflow::OpKernelContext* const context_;
  tensorflow::AsyncOpKernel::DoneCallback done_;
  std::atomic<int> remaining_;
  std::shared_ptr<NamesInFlight> names_;
  std::mutex mutex_;
  absl::Status status_;
};

}  // namespace hipress::tensorflow_operators
