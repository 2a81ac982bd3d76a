// SPDX-License-Identifier: Apache-2.0
#include "core/slots/slot_header.h"

#include <algorithm>
#include <string>

namespace hipress {
namespace {

/// Throws CorruptPayload unless the header is what the receiver of a contribution expects.
void unpack(const Slot& slot, ConstBytes message) {
  WireHeaderBytes bytes;
  std::ranges::copy(message.first(kWireHeaderBytes), bytes.begin());
  ExpectedMessage expected;
  expected.codec = slot.codec->id();
  expected.dtype = slot.dtype;
  expected.elementCount = slot.count;
  expected.maxPayloadBytes = std::max(slot.payloadBytes, slot.count * elementSize(slot.dtype));
  expected.inSlot = true;
  const WireHeader header = unpackHeader(bytes, expected);
  if (header.updates != 0) {
    throw corruptPayload("it has refused the contribution of rank " + std::to_string(header.updates - 1) +
                         " of the group");
  }
  if ((header.flags & kFlagAbsent) != 0)
    throw corruptPayload("a contribution is absent, and only an average may be");
  if (((header.flags & kFlagRaw) != 0) != slot.raw)
    throw corruptPayload("the payload is raw on one side only");
  throw corruptPayload("a payload has " + std::to_string(header.payloadBytes) + " bytes, not " +
                       std::to_string(slot.payloadBytes));
}

}  // namespace

WireHeader slotHeader(const Slot& slot, bool raw, size_t payloadBytes) {
  WireHeader header;
  header.flags = raw ? kFlagRaw : 0;
  header.codec = slot.codec->id();
  header.dtype = slot.dtype;
  header.elementCount = slot.count;
  header.payloadBytes = payloadBytes;
  return header;
}

Error refusedHeader(const Slot& slot, ConstBytes header, int sender) {
  try {
    unpack(slot, header);
  } catch (const Error& error) {
    return fromRank(error, slot, sender);
  }
  return fromRank(corruptPayload("the device has refused the header"), slot, sender);
}

Error fromRank(const Error& error, const Slot& slot, int sender) {
  return {error.kind(), "tensor '" + slot.name + "', partition " + std::to_string(slot.partition) +
                            ", from rank " + std::to_string(sender) + " of the group: " + error.what()};
}

}  // namespace hipress
