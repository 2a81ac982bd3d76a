// SPDX-License-Identifier: Apache-2.0
//
// The cores of one machine. All threads with work share them fairly, as the kernel does in the long run:
// every thread gets the same, and at most one core.
#pragma once

#include <cstddef>
#include <cstdint>
#include <queue>
#include <vector>

namespace hipress {

using ThreadIndex = uint32_t;

class Processors {
 public:
  /// `alike`: the number of threads for which each simulated thread stands.
  Processors(double cores, double alike) : cores_(cores), alike_(alike) {}

  /// Gives `seconds` of work to an idle thread. `width`: the number of threads that work at once.
  void begin(ThreadIndex thread, double seconds, double width, double now);

  /// Whether any thread works.
  bool working() const { return !jobs_.empty(); }
  /// The end of the first job, if no job begins before. At least one thread must work.
  double firstDone() const;
  /// Ends the first job now and returns its thread.
  ThreadIndex finishFirst(double now);

  /// The number of cores in use with one more thread.
  size_t busyWithOneMore() const;

 private:
  struct Job {
    double doneAt = 0;  // on the clock of the work that each thread gets
    ThreadIndex thread = 0;
    double width = 1;
    bool operator<(const Job& other) const {
      return doneAt != other.doneAt ? doneAt > other.doneAt : thread > other.thread;
    }
  };

  double rate() const;
  void advance(double now);

  const double cores_;
  const double alike_;
  std::priority_queue<Job> jobs_;
  double threads_ = 0;
  double given_ = 0;  // work that one thread would have got since the start
  double last_ = 0;
};

}  // namespace hipress
