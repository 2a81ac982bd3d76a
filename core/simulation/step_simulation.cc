// SPDX-License-Identifier: Apache-2.0
#include "core/simulation/step_simulation.h"

#include <algorithm>

#include "core/base/error.h"

namespace hipress {

StepOutcome StepSimulation::run() {
  for (uint32_t rank = 0; rank < seen_; ++rank) beginNext(threadOf(rank, 0));
  while (!events_.empty()) {
    const Event event = events_.pop();
    now_ = event.time;
    switch (event.kind) {
      case EventKind::kRelease: {
        const uint32_t main = threadOf(event.subject, 0);
        threads_[main].waiting.push_back({JobKind::kSubmit, event.detail, 0});
        beginNext(main);
        break;
      }
      case EventKind::kProcessor:
        onProcessor(event.subject);
        break;
      case EventKind::kUplink:
        offer(network_->onUplink(event.subject, now_));
        break;
      case EventKind::kArrival: {
        const Chunk chunk = network_->onArrival(event.subject, now_);
        const uint32_t thread = transportThread(receiverOf(flights_[chunk.flight]));
        Job job{JobKind::kReceive, 0, 0};
        job.chunk = chunk;
        threads_[thread].waiting.push_back(job);
        beginNext(thread);
        break;
      }
      case EventKind::kDelivery:
        deliver(event.subject);
        break;
      case EventKind::kLinger:
        connections_[event.subject].lingers = false;
        dispatch(event.subject);
        break;
      case EventKind::kTaskDone:
        complete(transportThread(instances_[event.subject].rank), event.subject, event.detail);
        break;
    }
  }
  return outcome();
}

StepOutcome StepSimulation::outcome() const {
  const bool finished = std::all_of(tensors_.begin(), tensors_.end(),
                                    [](const Tensor& tensor) { return tensor.unfinished == 0; });
  if (!finished)
    throw Error(ErrorKind::kUnsupported, "the simulated step stopped before all tensors were complete");
  StepOutcome outcome = outcome_;
  for (uint32_t rank = 0; rank < seen_; ++rank) outcome.ranks[rank].sending = network_->sending(rank);
  for (size_t number = 0; number < tensors_.size(); ++number) {
    if (description_.gradients[number].after < 0)
      outcome.backward = std::max(outcome.backward, outcome.gradients[number].start);
  }
  outcome.events = events_.pushed();
  return outcome;
}

StepOutcome simulateStep(const StepDescription& description) {
  return StepSimulation(description).run();
}

}  // namespace hipress
