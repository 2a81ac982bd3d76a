// SPDX-License-Identifier: Apache-2.0
//
// The beginning and the end of a tensor on a rank: what releases it, the computations for the whole tensor
// before its tasks and behind them, and the tensors that its end releases. Follows casync/run/linked_step.cc.
#include <algorithm>

#include "core/simulation/step_simulation.h"

namespace hipress {

/// The rank has the values, or all that the computation of the values needs.
void StepSimulation::releaseTensor(uint32_t thread, uint32_t rank, uint32_t number) {
  GradientOutcome& outcome = outcome_.gradients[number];
  outcome.start = std::max(outcome.start, now_);
  if (description_.gradients[number].before.costs < 0) return startTensor(thread, rank, number);
  beginWork(thread, rank, number, JobKind::kBefore);
}

/// On the thread itself if the tensor is small, like the engine (run/computation.cc).
void StepSimulation::beginWork(uint32_t thread, uint32_t rank, uint32_t number, JobKind kind) {
  const double elements = workOf({kind, number}).bytes / sizeof(float);
  if (elements > static_cast<double>(description_.settings.inlineElements))
    return enqueue(thread, rank, priorityOf(number), {kind, number, 0});
  threads_[thread].ready.push_back({kind, number, 0});
  beginNext(thread);
}

const WholeWork& StepSimulation::workOf(const Job& job) const {
  const GradientDescription& gradient = description_.gradients[job.subject];
  return job.kind == JobKind::kBefore ? gradient.before : gradient.behind;
}

/// If one rank stands for all, a tensor has several instances on it.
void StepSimulation::endInstance(uint32_t thread, uint32_t number) {
  const uint32_t tensor = instances_[number].tensor;
  const uint32_t rank = instances_[number].rank;
  if (symmetric_ && --tensors_[tensor].unfinishedInstances > 0) return;
  if (description_.gradients[tensor].behind.costs < 0) return endTensor(thread, rank, tensor);
  beginWork(thread, rank, tensor, JobKind::kBehind);
}

void StepSimulation::endTensor(uint32_t thread, uint32_t rank, uint32_t number) {
  Tensor& tensor = tensors_[number];
  if (--tensor.unfinished == 0) {
    outcome_.gradients[number].end = now_;
    outcome_.step = std::max(outcome_.step, now_);
  }
  for (const uint32_t follower : tensor.followers) releaseTensor(thread, rank, follower);
}

}  // namespace hipress
