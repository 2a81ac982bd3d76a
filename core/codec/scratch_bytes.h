// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace hipress {

/// What codecs compute with, of all threads of the process: in use, or kept for their next call.
size_t scratchBytesHeld();

}  // namespace hipress
