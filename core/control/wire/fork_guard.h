// SPDX-License-Identifier: Apache-2.0
//
// A rank's death is detected because the kernel closes its connection. A process that the rank forked (such
// as a data loader's worker) would keep the connection open. So in a forked child every guarded descriptor is
// replaced by /dev/null. Its number stays taken, so that objects which the child inherited cannot close
// another file by it.
#pragma once

namespace hipress::control {

void guardFromFork(int fd);

/// Closes a guarded descriptor and ends its guard in one step. Otherwise a fork in between could hit a reused
/// number.
void closeGuarded(int fd);

}  // namespace hipress::control
