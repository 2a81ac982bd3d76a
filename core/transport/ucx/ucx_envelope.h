// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/transport/transport.h"

namespace hipress {

/// Active messages of this number are ours.
inline constexpr unsigned kUcxMessageId = 0;

/// In front of every payload: who sends it and which message it is, or kBundleTag.
struct UcxEnvelope {
  int32_t source = 0;
  MessageTag tag;
  MessageHeader header{};
};
static_assert(sizeof(UcxEnvelope) == 48);

}  // namespace hipress
