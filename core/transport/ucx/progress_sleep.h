// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/time.h"
#include "core/base/unique_fd.h"

namespace hipress {

/// The sleep of the progress thread, until the mailbox or UCX's worker has work, or an interval has passed. A
/// timer measures the interval, because a timeout at each wait costs half a microsecond.
class ProgressSleep {
 public:
  /// Throws Transport if the kernel has no timer or cannot wait for a descriptor.
  ProgressSleep(int mailbox, int worker, Milliseconds interval);

  /// Sleeps. Returns true once for each end of an interval.
  bool sleep();

 private:
  void watch(int descriptor);

  UniqueFd timer_;
  UniqueFd all_;  // the kernel's list of the three; poll() would copy the list for each sleep
};

}  // namespace hipress
