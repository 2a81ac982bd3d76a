// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/time.h"
#include "core/base/unique_fd.h"

namespace hipress {

/// Where the progress thread sleeps: until the mailbox or UCX's worker has something, or an interval has
/// passed. The interval is a timer of its own, because a time limit of each wait costs half a microsecond.
class ProgressSleep {
 public:
  /// Throws Transport if the kernel has no timer, or cannot wait for one of the descriptors.
  ProgressSleep(int mailbox, int worker, Milliseconds interval);

  /// Returns whether an interval has passed since the last time that it said so.
  bool sleep();

 private:
  void watch(int descriptor);

  UniqueFd timer_;
  UniqueFd all_;  // the kernel's list of the three, which poll() would make again for each sleep
};

}  // namespace hipress
