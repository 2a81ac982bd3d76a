// SPDX-License-Identifier: Apache-2.0
#include "core/simulation/processors.h"

#include <algorithm>

namespace hipress {

double Processors::rate() const {
  return std::min(1.0, cores_ / (threads_ * alike_));
}

void Processors::advance(double now) {
  if (!jobs_.empty()) given_ += (now - last_) * rate();
  last_ = now;
}

void Processors::begin(ThreadIndex thread, double seconds, double width, double now) {
  advance(now);
  jobs_.push({given_ + seconds, thread, width});
  threads_ += width;
}

double Processors::firstDone() const {
  return last_ + std::max(0.0, jobs_.top().doneAt - given_) / rate();
}

ThreadIndex Processors::finishFirst(double now) {
  advance(now);
  const Job job = jobs_.top();
  jobs_.pop();
  // The rounding error of this time must not delay the jobs behind it.
  given_ = std::max(given_, job.doneAt);
  threads_ = jobs_.empty() ? 0 : threads_ - job.width;
  return job.thread;
}

size_t Processors::busyWithOneMore() const {
  const double busy = std::min(cores_, (threads_ + 1) * alike_);
  return std::max<size_t>(1, static_cast<size_t>(busy));
}

}  // namespace hipress
