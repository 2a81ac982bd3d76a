// SPDX-License-Identifier: Apache-2.0
#include "core/slots/slot_words.h"

#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "core/slots/slot_header.h"

namespace hipress {

SlotWords::SlotWords(size_t slots, int world, std::shared_ptr<Device> device)
    : device_(std::move(device)),
      slots_(slots),
      world_(world),
      wordsOfSlot_(kEncoded + kSlotRefusal + static_cast<size_t>(world)),
      bytes_(std::max<size_t>(slots_ * (3 + wordsOfSlot_), 1) * sizeof(uint32_t)),
      found_(static_cast<uint32_t*>(device_->memory()->allocateZeros(bytes_))),
      told_(static_cast<uint32_t*>(device_->staging()->allocate(bytes_))) {}

SlotWords::~SlotWords() {
  device_->memory()->free(found_);
  device_->staging()->free(told_);
}

void SlotWords::tell(DeviceStream& stream) const {
  stream.copyToHost(reinterpret_cast<std::byte*>(told_),
                    {reinterpret_cast<const std::byte*>(found_), bytes_});
}

void SlotWords::raise(const std::vector<Slot>& slots, const Functions& functions) const {
  for (size_t number = 0; number < slots_; ++number) {
    const Slot& slot = slots[number];
    const uint32_t* const said = told_ + (word(number, 0) - found_);
    if (const uint32_t sender = said[kEncoded]; sender != 0) {
      const auto header = std::as_bytes(std::span(said + kEncoded + 1, kSlotRefusal - 1));
      throw refusedHeader(slot, header, static_cast<int>(sender - 1));
    }
    if (slot.raw) continue;
    for (const size_t encoding : {size_t{0}, size_t{2}}) {
      const CodecPointer& codec = encoding == 0 ? slot.codec : slot.aggregateCodec;
      if (const uint32_t error = said[encoding + 1]; error != 0)
        throw invalidArgument("tensor '" + slot.name + "', partition " + std::to_string(slot.partition) +
                              ": " + functions.at(codec.get())->refusal(error));
    }
    for (int rank = 0; rank < world_; ++rank) {
      if (const uint32_t error = said[kEncoded + kSlotRefusal + static_cast<size_t>(rank)]; error != 0)
        throw fromRank(corruptPayload(functions.at(slot.codec.get())->refusal(error)), slot, rank);
    }
  }
}

}  // namespace hipress
