// SPDX-License-Identifier: Apache-2.0
//
// A rank's death is noticed because the kernel closes its connection. A process it forked (a data loader's
// worker, say) would hold the connection open beyond that. So in a forked child every guarded descriptor is
// replaced by /dev/null; its number stays taken, so that objects the child inherited cannot close something
// else by it.
#pragma once

namespace hipress::control {

void guardFromFork(int fd);

/// Closes a guarded descriptor: in one step with ending its guard, or a fork in between could hit a reused
/// number.
void closeGuarded(int fd);

}  // namespace hipress::control
