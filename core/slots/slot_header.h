// SPDX-License-Identifier: Apache-2.0
//
// The headers of the messages in slots. A contribution says whether the gradient is zeros. An average says
// whether it is absent, because no rank has a gradient.
#pragma once

#include "core/base/error.h"
#include "core/codec/wire/wire_header.h"
#include "core/slots/slot_blocks.h"

namespace hipress {

WireHeader slotHeader(const Slot& slot, size_t payloadBytes);

/// Checks the header at the begin of a message of rank `sender`, which is the owner if it is an average.
/// Throws CorruptPayload.
WireHeader checkedHeader(const Slot& slot, ConstBytes message, int sender);

/// An error of a message, with tensor, partition and sender.
Error fromRank(const Error& error, const Slot& slot, int sender);

}  // namespace hipress
