// SPDX-License-Identifier: Apache-2.0
//
// Waits for what a stream has reached, and tells whoever asked, in order. It sleeps; nothing polls.
#pragma once

#include <functional>
#include <memory>
#include <thread>

#include "core/base/failure.h"
#include "core/base/time.h"

namespace hipress {

class CompletionThread {
 public:
  /// Returns when the stream has come there; how that ended.
  using Reached = std::function<Failure()>;

  CompletionThread();
  ~CompletionThread();
  CompletionThread(const CompletionThread&) = delete;
  CompletionThread& operator=(const CompletionThread&) = delete;

  /// Thread-safe. `reached` owns all that it needs: it may outlive this. After stop() the callback is called
  /// at once, with a failure.
  void push(Reached reached, EndCallback callback);

  /// Waits until all callbacks have run. False if `limit` passes first: the others are never called, and
  /// what they hold lives until the stream has come there. Idempotent.
  bool stop(Milliseconds limit);

 private:
  struct Shared;
  static void serve(const std::shared_ptr<Shared>& shared);

  std::shared_ptr<Shared> shared_;
  std::thread thread_;
};

}  // namespace hipress
