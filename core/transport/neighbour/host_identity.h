// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace hipress {

/// A text that two processes share exactly if they can reach each other through POSIX shared memory: same
/// boot of the same kernel, same IPC namespace, same /dev/shm. Containers and emulated nodes on one machine
/// differ.
std::string hostIdentity();

}  // namespace hipress
