// SPDX-License-Identifier: Apache-2.0
#include "core/codec/scratch_bytes.h"

#include "core/ops/cpu/scratch.h"

namespace hipress {

size_t scratchBytesHeld() {
  return ops::detail::scratchMemory->bytes();
}

}  // namespace hipress
