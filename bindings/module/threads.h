// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/codec/parallel.h"

namespace hipress::bindings {

/// The calling thread and `threads` - 1 more threads, which are kept for later calls; nullptr for one thread.
/// Throws InvalidArgument for less than one.
Parallel* threadsFor(int threads);

}  // namespace hipress::bindings
