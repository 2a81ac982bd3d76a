// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace hipress {

/// Bytes of scratch memory of all codecs and threads of this process, in use or kept for the next call.
size_t scratchBytesHeld();

}  // namespace hipress
