// SPDX-License-Identifier: Apache-2.0
#include "core/casync/operation.h"

#include <utility>

namespace hipress {

Operation::Operation(std::shared_ptr<const Tensor> agreed, uint32_t stepNumber)
    : tensor(std::move(agreed)),
      step(stepNumber),
      pending(tensor->graph.tasks().size()),
      complete(tensor->graph.tasks().size()),
      startedNs(tensor->graph.tasks().size()),
      messages(tensor->graph.messages().size()),
      sums(tensor->graph.sums()),
      remaining(static_cast<uint32_t>(tensor->graph.tasks().size())) {
  const auto& tasks = tensor->graph.tasks();
  for (size_t index = 0; index < tasks.size(); ++index) {
    pending[index].store(tasks[index].dependencies, std::memory_order_relaxed);
  }
}

void Operation::finish(const Failure& failure) {
  {
    const std::lock_guard lock(mutex_);
    if (finished_.load(std::memory_order_relaxed)) return;
    failure_ = failure;
    finished_.store(true, std::memory_order_release);
  }
  done_.notify_all();
}

bool Operation::waitUntil(Clock::time_point until) {
  std::unique_lock lock(mutex_);
  return done_.wait_until(lock, until, [this] { return finished_.load(std::memory_order_relaxed); });
}

Failure Operation::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

}  // namespace hipress
