// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/transport/transport.h"

namespace hipress {

/// A message that waits in the communication queue.
struct QueuedMessage {
  int priority = 0;
  SendRequest request;
  /// If given, called when the message leaves the queue, before request.onSent.
  InlineFunction<void()> onStart;
  uint64_t mark = 0;  ///< For the schedule only.

  size_t bytes() const { return request.payload.size() + kMessageHeaderBytes; }
};

}  // namespace hipress
