// SPDX-License-Identifier: Apache-2.0
//
// Words in a device's memory by which it tells, of each slot of a program, what it has found.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "core/device/device.h"
#include "core/slots/program/slot.h"

namespace hipress {

class SlotWords {
 public:
  using Functions = std::map<const Codec*, std::shared_ptr<const DeviceCodec>>;

  SlotWords(size_t slots, int world, std::shared_ptr<Device> device);
  ~SlotWords();
  SlotWords(const SlotWords&) = delete;
  SlotWords& operator=(const SlotWords&) = delete;

  /// 1 if a rank has a gradient for the slot, and if the average is not finite.
  uint32_t* nonzero(size_t slot) const { return found_ + slot; }
  uint32_t* notFinite(size_t slot) const { return found_ + slots_ + slot; }
  /// These words of all slots, which each step finds anew.
  std::span<uint32_t> anew() const { return {found_, 2 * slots_}; }
  /// As SlotSeal::absent.
  uint32_t* absent(size_t slot) const { return found_ + 2 * slots_ + slot; }
  /// Length and error of an encoding.
  uint32_t* encoded(size_t slot, EncodeAs as) const {
    return word(slot, as == EncodeAs::kContribution ? 0 : 2);
  }
  /// kSlotRefusal words.
  uint32_t* refusal(size_t slot) const { return word(slot, kEncoded); }
  /// The error of decoding a rank's message.
  uint32_t* decoding(size_t slot, int rank) const {
    return word(slot, kEncoded + kSlotRefusal + static_cast<size_t>(rank));
  }

  /// Copies the words to the host.
  void tell(DeviceStream& stream) const;
  /// Throws the first error among the words that the host has.
  void raise(const std::vector<Slot>& slots, const Functions& functions) const;

 private:
  static constexpr size_t kEncoded = 4;

  uint32_t* word(size_t slot, size_t number) const {
    return found_ + 3 * slots_ + slot * wordsOfSlot_ + number;
  }

  const std::shared_ptr<Device> device_;
  const size_t slots_;
  const int world_;
  const size_t wordsOfSlot_;
  const size_t bytes_;
  uint32_t* found_ = nullptr;
  uint32_t* told_ = nullptr;  ///< The words, in staging.
};

}  // namespace hipress
