// SPDX-License-Identifier: Apache-2.0
//
// A thread that waits until a stream reaches points and calls their callbacks in order. It does not poll.
#pragma once

#include <functional>
#include <memory>
#include <thread>

#include "core/base/failure.h"
#include "core/base/time.h"

namespace hipress {

class CompletionThread {
 public:
  /// Returns when the stream has reached the point, with the failure, if any.
  using Reached = std::function<Failure()>;

  CompletionThread();
  ~CompletionThread();
  CompletionThread(const CompletionThread&) = delete;
  CompletionThread& operator=(const CompletionThread&) = delete;

  /// Thread-safe. `reached` owns all that it needs, because it may outlive this object. After stop() the call
  /// runs `callback` at once, with a failure.
  void push(Reached reached, EndCallback callback);

  /// Waits until all callbacks have run. Returns false if `limit` passes first: the other callbacks never
  /// run, and their objects live until the stream has reached their points. Idempotent.
  bool stop(Milliseconds limit);

 private:
  struct Shared;
  static void serve(const std::shared_ptr<Shared>& shared);

  std::shared_ptr<Shared> shared_;
  std::thread thread_;
};

}  // namespace hipress
