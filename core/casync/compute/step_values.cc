// SPDX-License-Identifier: Apache-2.0
#include "core/casync/compute/step_values.h"

#include <utility>

#include "core/casync/compute/device_values.h"

namespace hipress {

StepValues::StepValues(std::shared_ptr<const Tensor> planned)
    : tensor(std::move(planned)),
      messages(tensor->graph().messages().size()),
      readers(messages.size()),
      sums(tensor->graph().sums()) {}

StepValues::~StepValues() = default;

void StepValues::arm(uint32_t stepNumber) {
  step = stepNumber;
  if (const auto awaited = std::exchange(awaited_, nullptr)) {
    awaited->settleAlone(workerStates);
    awaited->settleAlone(aggregatorStates);
  }
  settleStates(false);  // values that a failed step has left
  scaled.release();
  for (SumState& sum : sums) sum = {};
  for (size_t index = 0; index < messages.size(); ++index) {
    messages[index] = {};
    readers[index].store(tensor->graph().messages()[index].readers, std::memory_order_relaxed);
  }
  absent.store(false, std::memory_order_relaxed);
  notFinite.store(false, std::memory_order_relaxed);
}

void StepValues::endReading(const Task& task) {
  const auto end = [this](MessageIndex message) {
    if (readers[message].fetch_sub(1, std::memory_order_acq_rel) == 1) messages[message].buffer.release();
  };
  if (task.primitive == Primitive::kSend || task.primitive == Primitive::kDecode) end(task.message);
  if (task.primitive != Primitive::kMerge) return;
  for (const Operand& operand : task.from) {
    if (operand.kind == Operand::Kind::kMessage) end(operand.index);
  }
}

void StepValues::endStates() {
  const bool finite = !notFinite.load(std::memory_order_relaxed);
  if (verdict == nullptr) return settleStates(finite);
  awaited_ = std::exchange(verdict, nullptr);
  awaited_->leave(workerStates, aggregatorStates, finite);
}

void StepValues::release() {
  endStates();
  if (device) device->release();
  scaled.release();
}

void StepValues::settleStates(bool keep) {
  if (workerStates) workerStates->settle(keep);
  if (aggregatorStates) aggregatorStates->settle(keep);
}

}  // namespace hipress
