// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace hipress {

/// A text that is equal in two processes only if they reach each other through POSIX shared memory: same boot
/// of the same kernel, same IPC namespace, same /dev/shm. Containers and emulated hosts of one machine have
/// different texts.
std::string hostIdentity();

}  // namespace hipress
