// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/codec/parallel.h"

namespace hipress::bindings {

/// The calling thread and `threads` - 1 more, which are kept for the next call; nullptr for one thread.
/// Throws InvalidArgument for less than one.
Parallel* threadsFor(int threads);

}  // namespace hipress::bindings
