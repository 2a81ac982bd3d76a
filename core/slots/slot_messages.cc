// SPDX-License-Identifier: Apache-2.0
//
// What a SlotPlan does with the messages of many slots at once.
#include <map>
#include <vector>

#include "core/slots/slot_header.h"
#include "core/slots/slot_shared.h"

namespace hipress {

SlotSpan SlotPlan::spanOf(size_t number, const SlotValues& values, uint32_t* word) const {
  const Slot& slot = blocks().slots()[number];
  return {elementsOnDevice(slot, values), slot.count, static_cast<uint32_t>(elementSize(values.dtype)), word};
}

void SlotPlan::findZeros(DeviceStream& stream, std::span<const SlotValues> tensors,
                         const SlotChanges& changed) {
  if (!changed.keepsStates() && !shared_->keepsStates) return;
  stream.fillZeros(std::as_writable_bytes(shared_->words->anew()));
  std::vector<SlotSpan> asked;
  for (size_t number = 0; number < blocks().slots().size(); ++number) {
    const Slot& slot = blocks().slots()[number];
    if (keepsStates(slot))
      asked.push_back(spanOf(number, tensors[slot.tensor], shared_->words->nonzero(number)));
  }
  stream.findNonzero(asked);
}

SlotSeal SlotPlan::sealOf(size_t number, std::byte* header, SlotPurpose purpose) const {
  const Slot& slot = blocks().slots()[number];
  const SlotWords& words = *shared_->words;
  const WireHeader known = slotHeader(slot, slot.raw ? slot.payloadBytes : 0);
  SlotSeal one{};
  one.header = reinterpret_cast<uint8_t*>(header);
  one.elements = known.elementCount;
  one.codec = known.codec;
  one.payloadBytes = static_cast<uint32_t>(known.payloadBytes);
  if (!slot.raw && slot.count > 0) one.bytes = words.encoded(number, purpose);
  if (keepsStates(slot) && slot.count > 0) one.nonzero = words.nonzero(number);
  one.raw = known.flags;
  one.dtype = static_cast<uint8_t>(known.dtype);
  if (purpose == SlotPurpose::kContribution) return one;
  one.notFinite = words.notFinite(number);
  one.refused = words.refusal(number);
  one.errors = words.decoding(number, 0);
  one.ranks = static_cast<uint32_t>(blocks().world());
  one.absent = words.absent(number);
  return one;
}

SlotCheck SlotPlan::checkOf(size_t number, ConstBytes message, int sender) const {
  const Slot& slot = blocks().slots()[number];
  const SlotWords& words = *shared_->words;
  const WireHeader known = slotHeader(slot, slot.payloadBytes);
  SlotCheck one{};
  one.header = reinterpret_cast<const uint8_t*>(message.data());
  one.elements = known.elementCount;
  one.codec = known.codec;
  one.mostBytes = static_cast<uint32_t>(known.payloadBytes);
  one.sender = static_cast<uint32_t>(sender);
  one.raw = known.flags;
  one.dtype = static_cast<uint8_t>(known.dtype);
  one.refused = words.refusal(number);
  const bool isAverage = !blocks().whole() && slot.owner == sender;
  if (isAverage) one.absent = words.absent(number);
  if (!isAverage && keepsStates(slot)) one.nonzero = words.nonzero(number);
  return one;
}

void SlotPlan::checkContributions(DeviceStream& stream, ConstBytes inward, const SlotChanges& changed) {
  std::vector<SlotCheck> come;
  for (size_t number = 0; number < blocks().slots().size(); ++number) {
    const Slot& slot = blocks().slots()[number];
    if (!blocks().whole() && slot.owner != blocks().rank()) continue;
    for (int rank = 0; rank < blocks().world(); ++rank) {
      if (rank != blocks().rank())
        come.push_back(checkOf(number, blocks().contribution(slot, inward, rank), rank));
    }
  }
  stream.check(come, changed.verdict());
}

void SlotPlan::lookAt(DeviceStream& stream, std::span<const SlotValues> tensors, const SlotChanges& changed,
                      const std::function<bool(const Slot&, DType)>& asks) {
  if (!changed.keepsStates()) return;
  std::map<DType, std::vector<SlotSpan>> asked;
  for (size_t number = 0; number < blocks().slots().size(); ++number) {
    const Slot& slot = blocks().slots()[number];
    const SlotValues& values = tensors[slot.tensor];
    if (asks(slot, values.dtype)) asked[values.dtype].push_back(spanOf(number, values, changed.verdict()));
  }
  for (const auto& [dtype, spans] : asked) stream.findNotFinite(dtype, spans);
}

}  // namespace hipress
