// SPDX-License-Identifier: Apache-2.0
//
// The headers of the messages in slots. A contribution says whether the gradient is zeros. An average says
// whether it is absent, because no rank has a gradient.
#pragma once

#include "core/base/error.h"
#include "core/codec/wire/wire_header.h"
#include "core/slots/program/slot.h"

namespace hipress {

WireHeader slotHeader(const Slot& slot, bool raw, size_t payloadBytes);

/// Why a device has refused the header of a message of rank `sender`.
Error refusedHeader(const Slot& slot, ConstBytes header, int sender);

/// An error of a message, with tensor, partition and sender.
Error fromRank(const Error& error, const Slot& slot, int sender);

}  // namespace hipress
