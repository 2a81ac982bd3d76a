// SPDX-License-Identifier: Apache-2.0
#include "core/casync/operation.h"

#include <utility>

#include "core/casync/device_values.h"

namespace hipress {

Operation::Operation(std::shared_ptr<const Tensor> agreed)
    : tensor(std::move(agreed)),
      pending(tensor->graph.tasks().size()),
      complete(tensor->graph.tasks().size()),
      startedNs(tensor->graph.tasks().size()),
      messages(tensor->graph.messages().size()),
      readers(tensor->graph.messages().size()),
      sums(tensor->graph.sums()) {}

Operation::~Operation() = default;

void Operation::arm(uint32_t stepNumber) {
  const auto& tasks = tensor->graph.tasks();
  step = stepNumber;
  for (size_t index = 0; index < tasks.size(); ++index) {
    pending[index].store(tasks[index].dependencies, std::memory_order_relaxed);
    complete[index].store(false, std::memory_order_relaxed);
  }
  for (SumState& sum : sums) sum = {};
  for (size_t index = 0; index < messages.size(); ++index) {
    messages[index] = {};
    readers[index].store(tensor->graph.messages()[index].readers, std::memory_order_relaxed);
  }
  remaining.store(static_cast<uint32_t>(tasks.size()), std::memory_order_relaxed);
  absent.store(false, std::memory_order_relaxed);
  const std::lock_guard lock(mutex_);
  failure_ = nullptr;
  finished_.store(false, std::memory_order_release);
}

void Operation::endReading(const Task& task) {
  const auto end = [this](MessageIndex message) {
    if (readers[message].fetch_sub(1, std::memory_order_acq_rel) == 1) messages[message].buffer.release();
  };
  if (task.primitive == Primitive::kSend || task.primitive == Primitive::kDecode) end(task.message);
  if (task.primitive != Primitive::kMerge) return;
  for (const Operand& operand : task.from) {
    if (operand.kind == Operand::Kind::kMessage) end(operand.index);
  }
}

bool Operation::finish(const Failure& failure) {
  {
    const std::lock_guard lock(mutex_);
    if (finished_.load(std::memory_order_relaxed)) return false;
    failure_ = failure;
    finished_.store(true, std::memory_order_release);
  }
  done_.notify_all();
  return true;
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
