// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "core/slots/slot_executor.h"
#include "core/slots/slot_words.h"

namespace hipress {

/// A slot in a run: where its values, sums and messages are, on the device.
class SlotPlace {
 public:
  SlotPlace(const SlotProgram& program, const SlotWords& words, size_t number, SlotQueue& queue,
            const SlotCall& call)
      : program_(program), words_(words), number_(number), queue_(queue), call_(call) {}

  const Slot& slot() const { return program_.slots()[number_]; }
  const TaskGraph& graph() const { return program_.graph(number_); }
  size_t count() const { return slot().count; }

  // Words of this slot; see SlotWords.
  uint32_t* nonzero() const { return words_.nonzero(number_); }
  uint32_t* notFinite() const { return words_.notFinite(number_); }
  uint32_t* absent() const { return words_.absent(number_); }
  uint32_t* encoded(EncodeAs as) const { return words_.encoded(number_, as); }
  uint32_t* decoding(int rank) const { return words_.decoding(number_, rank); }

  /// The elements of the tensor.
  Bytes elements() const;
  /// The same, if they are float32.
  std::span<float> floats() const;
  SlotSpan spanOf(uint32_t* word) const;
  /// If the word is neither 0 nor `zerosAt`, the slot's average is refused.
  SlotFill fillOf(const uint32_t* word, uint32_t zerosAt = 0) const;
  /// The elements times `factor`, in float32, until the next call.
  std::span<const float> own(float factor) const;
  /// The memory of a sum.
  std::span<float> sumOf(SumIndex sum) const;

  bool isRaw(MessageIndex message) const { return program_.isRaw(number_, message); }
  /// Room for an encoded payload.
  Bytes payloadOf(MessageIndex message) const;
  /// This rank, if it has not received the message.
  int senderOf(MessageIndex message) const;
  DeviceContribution messageOf(MessageIndex message) const;
  DeviceContribution contribution(const Operand& operand) const;

  /// `header`: nullptr if there is no message.
  SlotSeal sealOf(std::byte* header, bool raw, size_t payloadBytes, EncodeAs as) const;
  SlotCheck checkOf(const Task& recv) const;

 private:
  const SlotProgram& program_;
  const SlotWords& words_;
  const size_t number_;
  SlotQueue& queue_;
  const SlotCall& call_;
};

}  // namespace hipress
