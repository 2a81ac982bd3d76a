// SPDX-License-Identifier: Apache-2.0
//
// The cores of one machine, shared fairly by the threads that have something to do, as the kernel does it in
// the long run: each thread has what every other has, a core at most.
#pragma once

#include <cstddef>
#include <cstdint>
#include <queue>
#include <vector>

namespace hipress {

using ThreadIndex = uint32_t;

class Processors {
 public:
  /// `alike`: each thread that is seen stands for so many.
  Processors(double cores, double alike) : cores_(cores), alike_(alike) {}

  /// The thread, which does nothing now, has `seconds` of work. `width`: for so many threads at once.
  void begin(ThreadIndex thread, double seconds, double width, double now);

  /// Whether a thread works.
  bool working() const { return !jobs_.empty(); }
  /// When the first is done, if none begins before. One works.
  double firstDone() const;
  /// The first is done now: which it is.
  ThreadIndex finishFirst(double now);

  /// Cores that would be in use with one thread more.
  size_t busyWithOneMore() const;

 private:
  struct Job {
    double doneAt = 0;  // on the clock of work that each thread gets
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
  double given_ = 0;  // work that a thread would have got since the start
  double last_ = 0;
};

}  // namespace hipress
