// SPDX-License-Identifier: Apache-2.0
#include "core/slots/slot_place.h"

#include <algorithm>

#include "core/codec/wire/wire_header.h"
#include "core/slots/slot_header.h"

namespace hipress {
namespace {

constexpr size_t kPayloadBytesAt = 16;  // in a header: docs/wire-format.md

/// The purpose for which this rank has encoded a message.
EncodeAs purposeOf(const TaskGraph& graph, MessageIndex message) {
  const auto encode = std::ranges::find_if(graph.tasks(), [&](const Task& task) {
    return task.primitive == Primitive::kEncode && task.message == message;
  });
  return encode->encodeAs;
}

}  // namespace

Bytes SlotPlace::elements() const {
  const SlotValues& values = call_.tensors[slot().tensor];
  const size_t bytes = elementSize(values.dtype);
  return {values.data + slot().first * bytes, count() * bytes};
}

std::span<float> SlotPlace::floats() const {
  return {reinterpret_cast<float*>(elements().data()), count()};
}

SlotSpan SlotPlace::spanOf(uint32_t* word) const {
  return {elements().data(), count(), word, static_cast<uint32_t>(elementSize(slot().dtype))};
}

SlotFill SlotPlace::fillOf(const uint32_t* word, uint32_t zerosAt) const {
  const Bytes bytes = elements();
  const bool nan = call_.changed.nanIfRefused() && isFloatingPoint(slot().dtype);
  return {bytes.data(), bytes.size(), word, zerosAt, nan ? kSlotNan : 0};
}

std::span<const float> SlotPlace::own(float factor) const {
  if (slot().dtype == DType::kFloat32 && factor == 1.0F) return floats();
  const void* const values = elements().data();
  const std::span<float> result = queue_.own(count());
  queue_.stream().add(slot().dtype, std::span(&values, 1), factor, DecodeMode::kAssign, result);
  return result;
}

std::span<float> SlotPlace::sumOf(SumIndex sum) const {
  const auto at = program_.sumAt(number_, sum);
  if (!at) return queue_.sum(count());
  return {reinterpret_cast<float*>(call_.arena.data() + *at), count()};
}

Bytes SlotPlace::payloadOf(MessageIndex message) const {
  return call_.arena.subspan(program_.messageAt(number_, message) + kWireHeaderBytes,
                             program_.payloadBytes(number_, message));
}

int SlotPlace::senderOf(MessageIndex message) const {
  const Message& known = graph().messages()[message];
  return known.received ? known.sender : program_.ranks().rank;
}

DeviceContribution SlotPlace::messageOf(MessageIndex message) const {
  DeviceContribution one;
  one.payload = payloadOf(message);
  one.error = decoding(senderOf(message));
  // The header of a message of this rank comes at the end of the run.
  one.payloadBytes =
      graph().messages()[message].received
          ? reinterpret_cast<const uint32_t*>(one.payload.data() - kWireHeaderBytes + kPayloadBytesAt)
          : encoded(purposeOf(graph(), message));
  return one;
}

DeviceContribution SlotPlace::contribution(const Operand& operand) const {
  if (operand.kind == Operand::Kind::kMessage) return messageOf(operand.index);
  DeviceContribution one;
  one.values = operand.kind == Operand::Kind::kSum ? sumOf(operand.index).data()
                                                   : own(slot().codec->gradientFactor()).data();
  return one;
}

SlotSeal SlotPlace::sealOf(std::byte* header, bool raw, size_t payloadBytes, EncodeAs as) const {
  const WireHeader known = slotHeader(slot(), raw, raw ? payloadBytes : 0);
  SlotSeal one{};
  one.header = reinterpret_cast<uint8_t*>(header);
  one.elements = known.elementCount;
  one.codec = known.codec;
  one.payloadBytes = static_cast<uint32_t>(known.payloadBytes);
  if (!raw && count() > 0) one.bytes = encoded(as);
  if (keepsStates(slot()) && count() > 0) one.nonzero = nonzero();
  one.raw = known.flags;
  one.dtype = static_cast<uint8_t>(known.dtype);
  if (as == EncodeAs::kContribution) return one;
  one.refused = words_.refusal(number_);
  one.errors = decoding(0);
  one.ranks = static_cast<uint32_t>(program_.ranks().world);
  if (as == EncodeAs::kPartialSum) return one;
  one.notFinite = notFinite();
  one.absent = absent();
  return one;
}

SlotCheck SlotPlace::checkOf(const Task& recv) const {
  const Bytes payload = payloadOf(recv.message);
  const WireHeader known = slotHeader(slot(), isRaw(recv.message), payload.size());
  SlotCheck one{};
  one.header = reinterpret_cast<const uint8_t*>(payload.data() - kWireHeaderBytes);
  one.elements = known.elementCount;
  one.codec = known.codec;
  one.mostBytes = static_cast<uint32_t>(known.payloadBytes);
  one.sender = static_cast<uint32_t>(recv.peer);
  one.raw = known.flags;
  one.dtype = static_cast<uint8_t>(known.dtype);
  one.refused = words_.refusal(number_);
  const bool isAverage = graph().messages()[recv.message].decoded;
  if (isAverage) one.absent = absent();
  if (!isAverage && keepsStates(slot())) one.nonzero = nonzero();
  return one;
}

}  // namespace hipress
