// SPDX-License-Identifier: Apache-2.0
#include "core/casync/compute/step_values.h"

#include <chrono>
#include <deque>
#include <future>
#include <utility>

#include "core/casync/compute/device_values.h"
#include "core/device/host_stream.h"

namespace hipress {
namespace {

constexpr std::chrono::seconds kLongestMultiplication{60};

}  // namespace

StepValues::StepValues(std::shared_ptr<const Tensor> planned)
    : tensor(std::move(planned)),
      messages(tensor->graph().messages().size()),
      readers(messages.size()),
      sums(tensor->graph().sums()) {}

StepValues::~StepValues() = default;

void StepValues::openStates(StateStore& store) {
  if (!tensor->keepsStates()) return;
  const uint64_t generation = store.generation();
  if (workerStates != nullptr && statesGeneration == generation) return;
  if (tensor->factoring()) {
    openFactorStates(store);
  } else {
    const auto place = device ? device->queue->states() : nullptr;
    const auto open = [&](StateRole role, const CodecPointer& codec) {
      return store.open(tensor->spec().name, role, codec->states(), tensor->partitionCounts(), place);
    };
    workerStates = open(StateRole::kWorker, tensor->codec());
    aggregatorStates = open(StateRole::kAggregator, tensor->aggregateCodec());
  }
  statesGeneration = generation;
}

/// A state has as many elements as the tensor, and the right factor has fewer. The rest takes no memory.
void StepValues::openFactorStates(StateStore& store) {
  const std::string& name = tensor->spec().name;
  const size_t right = tensor->factoring()->rank * tensor->factoring()->shape.columns;
  const size_t all = tensor->factoring()->shape.count();
  const CodecState residual{kResidual};
  const CodecState factor{"factor"};
  if (tensor->factoring()->errorFeedback)
    workerStates = store.open(name, StateRole::kWorker, {&residual, 1}, {all});
  if (tensor->factoring()->warmStart)
    aggregatorStates = store.open(name, StateRole::kWorker, {&factor, 1}, {right, all - right});
}

void StepValues::multiplyStates(float factor) {
  multiply(workerStates, factor);
  // The right factor has no unit: only its directions count.
  if (!tensor->factoring()) multiply(aggregatorStates, factor);
}

void StepValues::multiply(const std::shared_ptr<TensorStates>& states, float factor) const {
  if (states == nullptr) return;
  HostStream host;
  std::deque<StateLease> leases;
  std::vector<std::future<Failure>> ends;
  for (size_t partition = 0; partition < tensor->partitions().size(); ++partition) {
    if (states->states() == 0 || states->valuesLeft(0, partition) == 0) continue;
    DeviceStream& stream =
        device ? device->queue->streamOf(*tensor, partition) : static_cast<DeviceStream&>(host);
    const EncodeStates lent = leases.emplace_back(states, partition).states();
    for (size_t state = 0; state < states->states(); ++state) {
      const void* before[] = {lent.before[state]};
      stream.combine(Combination::kSum, DType::kFloat32, before, states->valuesLeft(state, partition), factor,
                     lent.after[state]);
    }
    const auto end = std::make_shared<std::promise<Failure>>();
    ends.push_back(end->get_future());
    stream.whenDone([end](const Failure& failure) { end->set_value(failure); });
  }
  for (std::future<Failure>& end : ends) {
    if (end.wait_for(kLongestMultiplication) != std::future_status::ready)
      throw Error(ErrorKind::kTimeout,
                  "a device did not multiply the states of tensor '" + tensor->spec().name + "' within 60 s");
    if (const Failure failure = end.get()) throw *failure;
  }
  for (StateLease& lease : leases) lease.commit();
}

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
