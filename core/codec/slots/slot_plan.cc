// SPDX-License-Identifier: Apache-2.0
#include "core/codec/slots/slot_plan.h"

#include <algorithm>
#include <array>
#include <utility>

#include "core/base/error.h"
#include "core/codec/merged_decoded.h"
#include "core/codec/slots/slot_header.h"
#include "core/codec/wire/wire_header.h"
#include "core/element/convert.h"
#include "core/element/finite.h"
#include "core/element/reduce.h"
#include "core/element/zeros.h"

namespace hipress {
namespace {

/// Memory of this thread for `count` floats; each call uses it again. `number` selects one of two blocks.
std::span<float> scratch(size_t count, size_t number) {
  thread_local std::array<std::vector<float>, 2> memory;
  auto& values = memory[number];
  if (values.size() < count) values.resize(count);
  return std::span(values).first(count);
}

std::byte* elementsOf(const Slot& slot, const SlotValues& values) {
  return values.data + slot.first * elementSize(values.dtype);
}

std::span<float> floatsOf(const Slot& slot, const SlotValues& values) {
  return {reinterpret_cast<float*>(elementsOf(slot, values)), slot.count};
}

/// The slot's values in float32. Values of another type are converted into scratch block `number`.
std::span<const float> widened(const Slot& slot, const SlotValues& values, size_t number) {
  if (values.dtype == DType::kFloat32) return floatsOf(slot, values);
  const auto floats = scratch(slot.count, number);
  widen(elementsOf(slot, values), values.dtype, floats);
  return floats;
}

/// The slot's values times the codec's factor, in float32, as a rank adds them to the sum. Scratch block
/// `number` holds them if the values have another type or the factor is not 1.
std::span<const float> contributed(const Slot& slot, const SlotValues& values, size_t number) {
  const auto floats = widened(slot, values, number);
  const float factor = slot.codec->gradientFactor();
  if (factor == 1.0f) return floats;
  const auto scaled = scratch(slot.count, number);
  const void* const one = floats.data();
  reduceInOrder(DType::kFloat32, std::span(&one, 1), slot.count, factor, scaled.data());
  return scaled;
}

/// The elements of the slot.
Bytes bytesOf(const Slot& slot, const SlotValues& values) {
  return {elementsOf(slot, values), slot.count * elementSize(slot.dtype)};
}

Bytes payloadOf(const Slot& slot, Bytes message) {
  return message.subspan(kWireHeaderBytes, slot.payloadBytes);
}

/// Writes the message of a raw slot.
void writeRaw(const Slot& slot, ConstBytes elements, Bytes message, uint8_t flags = 0) {
  std::ranges::copy(elements, payloadOf(slot, message).begin());
  seal(slot, slot.payloadBytes, message, flags);
}

ConstBytes payloadFrom(const Slot& slot, ConstBytes message, int sender) {
  return message.subspan(kWireHeaderBytes, checkedHeader(slot, message, sender).payloadBytes);
}

/// Decodes the payload and assigns the values to `output`, or adds them.
void read(const Slot& slot, ConstBytes message, int sender, DecodeMode mode, std::span<float> output) {
  const ConstBytes payload = payloadFrom(slot, message, sender);
  try {
    slot.codec->decode(payload, output, mode);
  } catch (const Error& error) {
    throw fromRank(error, slot, sender);
  }
}

/// Writes the message's values into the tensor.
void readTo(const Slot& slot, ConstBytes message, int sender, const SlotValues& values) {
  if (slot.raw) {
    std::ranges::copy(payloadFrom(slot, message, sender), elementsOf(slot, values));
    return;
  }
  if (values.dtype == DType::kFloat32)
    return read(slot, message, sender, DecodeMode::kAssign, floatsOf(slot, values));
  const auto floats = scratch(slot.count, 0);
  read(slot, message, sender, DecodeMode::kAssign, floats);
  narrow(floats, values.dtype, elementsOf(slot, values));
}

void multiply(std::span<float> values, float factor) {
  const void* const each = values.data();
  if (factor != 1.0f)
    reduceInOrder(DType::kFloat32, std::span(&each, 1), values.size(), factor, values.data());
}

/// Multiplies, and returns whether all products are finite.
bool multiplyToFinite(std::span<float> values, float factor) {
  constexpr size_t kPiece = 16384;  // stays in the cache for the look at it
  bool finite = true;
  for (size_t begin = 0; begin < values.size(); begin += kPiece) {
    const auto piece = values.subspan(begin, std::min(kPiece, values.size() - begin));
    multiply(piece, factor);
    finite = finite && allFinite(piece.data(), DType::kFloat32, piece.size());
  }
  return finite;
}

/// Whether the values of an average that has been written to the tensor are finite, if its message does not
/// tell. The codecs with states send an empty payload instead of such values.
bool isFiniteThere(const Slot& slot, const SlotValues& values, bool messageTells) {
  const bool narrows = values.dtype != DType::kFloat32 && values.dtype != DType::kFloat64;
  if (messageTells && (slot.raw || !narrows)) return true;
  return allFinite(elementsOf(slot, values), values.dtype, slot.count);
}

/// Writes float32 values into the tensor, in the tensor's element type.
void writeTo(const Slot& slot, std::span<const float> floats, const SlotValues& values) {
  if (values.dtype != DType::kFloat32) return narrow(floats, values.dtype, elementsOf(slot, values));
  std::ranges::copy(floats, floatsOf(slot, values).begin());
}

}  // namespace

void SlotPlan::encodeInto(const Slot& slot, std::span<const float> values, float factor, SlotPurpose purpose,
                          SlotStateTable& table, SlotStep step, Bytes message, SlotChanges& changed) const {
  const bool byWorker = purpose == SlotPurpose::kContribution;
  const Codec& codec = byWorker ? *slot.codec : *slot.aggregateCodec;
  const EncodeContext context = encodeContext(slot, step, purpose, factor);
  std::shared_ptr<SlotStates> states;
  if (!codec.states().empty()) {
    states = table.at(byWorker ? slot.workerKey : slot.aggregatorKey);
    states->keep(codec.states(), slot.count);
  }
  const size_t bytes = codec.encode(values, states == nullptr ? EncodeStates{} : states->lists(), context,
                                    payloadOf(slot, message));
  if (bytes > 0 && states != nullptr) {
    states->exchange();
    changed.add(byWorker ? slot.workerKey : slot.aggregatorKey, std::move(states));
  }
  if (bytes == 0 && slot.count > 0) changed.discard();
  seal(slot, bytes, message);
}

void SlotPlan::encode(std::span<const SlotValues> tensors, SlotStateTable& states, SlotStep step,
                      Bytes outward, SlotChanges& changed) const {
  blocks_.checkTensors(tensors);
  blocks_.checkOutward(outward.size());
  for (const Slot& slot : blocks_.slots()) {
    if (!blocks_.whole() && slot.owner == blocks_.rank()) continue;
    const Bytes message = blocks_.outwardMessage(slot, outward);
    if (!slot.raw) {
      const bool zeros = keepsStates(slot) && areZeros(bytesOf(slot, tensors[slot.tensor]));
      encodeInto(slot, widened(slot, tensors[slot.tensor], 0), 1.0f, SlotPurpose::kContribution, states, step,
                 message, changed);
      if (zeros) message[kWireFlagsAt] |= std::byte{kFlagZeros};
      continue;
    }
    writeRaw(slot, bytesOf(slot, tensors[slot.tensor]), message);
  }
  if (!blocks_.whole()) return;
  const Bytes own = outward.first(blocks_.blockBytes(0));
  for (size_t start = own.size(); start < outward.size(); start += own.size())
    std::ranges::copy(own, outward.subspan(start).begin());
}

void SlotPlan::average(std::span<const SlotValues> tensors, SlotStateTable& states, SlotStep step,
                       double factor, Bytes inward, SlotChanges& changed) const {
  blocks_.checkTensors(tensors);
  blocks_.checkInward(inward.size());
  for (const Slot& slot : blocks_.slots()) {
    if (slot.owner != blocks_.rank()) continue;
    const SlotValues& own = tensors[slot.tensor];
    const auto scale = static_cast<float>(factor);
    if (slot.raw) {
      averageRaw(slot, own, factor, inward);
      if (slot.aggregateCodec == nullptr) continue;
      const bool finite = !changed.keepsStates() || isFiniteThere(slot, own, false);
      if (!finite) changed.discard();
      for (size_t block = 0; block + 1 < static_cast<size_t>(blocks_.world()); ++block)
        writeRaw(slot, bytesOf(slot, own), blocks_.inwardMessage(slot, inward, block),
                 finite ? 0 : kFlagNotFinite);
      continue;
    }
    if (slot.aggregateCodec == nullptr) {
      const auto sum = scratch(slot.count, 0);
      addInOrder(slot, own, states, step, inward, sum, changed);
      multiply(sum, scale);
      writeTo(slot, sum, own);
      continue;
    }
    const Bytes result = blocks_.inwardMessage(slot, inward, 0);
    if (isAbsent(slot, own, inward)) {
      seal(slot, 0, result, kFlagAbsent);  // the tensor has the average, zeros, already
    } else {
      averageEncoded(slot, own, states, step, scale, inward, changed);
      readTo(slot, result, blocks_.rank(), own);
      const bool tells = !slot.aggregateCodec->states().empty();
      if (changed.keepsStates() && !isFiniteThere(slot, own, tells)) {
        changed.discard();
        result[kWireFlagsAt] |= std::byte{kFlagNotFinite};
      }
    }
    // The sum has read the contributions in all blocks. The average now replaces them.
    for (size_t block = 1; block + 1 < static_cast<size_t>(blocks_.world()); ++block)
      std::ranges::copy(result, blocks_.inwardMessage(slot, inward, block).begin());
  }
}

bool SlotPlan::isAbsent(const Slot& slot, const SlotValues& own, ConstBytes inward) const {
  if (!keepsStates(slot) || slot.count == 0 || !areZeros(bytesOf(slot, own))) return false;
  for (int rank = 0; rank < blocks_.world(); ++rank) {
    if (rank == blocks_.rank()) continue;
    if ((checkedHeader(slot, blocks_.contribution(slot, inward, rank), rank).flags & kFlagZeros) == 0)
      return false;
  }
  return true;
}

void SlotPlan::addInOrder(const Slot& slot, const SlotValues& own, SlotStateTable& states, SlotStep step,
                          ConstBytes inward, std::span<float> sum, SlotChanges& changed) const {
  for (int rank = 0; rank < blocks_.world(); ++rank) {
    const DecodeMode mode = rank == 0 ? DecodeMode::kAssign : DecodeMode::kAccumulate;
    if (rank == blocks_.rank() && mergesDecoded(*slot.codec)) {
      thread_local std::vector<std::byte> memory;  // of this thread; each call uses it again
      memory.resize(std::max(memory.size(), kWireHeaderBytes + slot.payloadBytes));
      const Bytes message = std::span(memory).first(kWireHeaderBytes + slot.payloadBytes);
      encodeInto(slot, widened(slot, own, 1), 1.0f, SlotPurpose::kContribution, states, step, message,
                 changed);
      read(slot, message, rank, mode, sum);
      continue;
    }
    if (rank != blocks_.rank()) {
      read(slot, blocks_.contribution(slot, inward, rank), rank, mode, sum);
      continue;
    }
    const std::array<const void*, 2> both = {sum.data(), contributed(slot, own, 1).data()};
    reduceInOrder(DType::kFloat32, rank == 0 ? std::span(both).last(1) : std::span<const void* const>(both),
                  slot.count, 1.0, sum.data());
  }
}

void SlotPlan::averageEncoded(const Slot& slot, const SlotValues& own, SlotStateTable& states, SlotStep step,
                              float factor, Bytes inward, SlotChanges& changed) const {
  const auto sum = scratch(slot.count, 0);
  addInOrder(slot, own, states, step, inward, sum, changed);
  encodeInto(slot, sum, factor, SlotPurpose::kResult, states, step, blocks_.inwardMessage(slot, inward, 0),
             changed);
}

void SlotPlan::averageRaw(const Slot& slot, const SlotValues& own, double factor, ConstBytes inward) const {
  std::vector<const void*> contributions;
  for (int rank = 0; rank < blocks_.world(); ++rank) {
    contributions.push_back(rank == blocks_.rank()
                                ? elementsOf(slot, own)
                                : payloadFrom(slot, blocks_.contribution(slot, inward, rank), rank).data());
  }
  reduceInOrder(slot.dtype, contributions, slot.count, rawFactor(slot, factor), elementsOf(slot, own));
}

void SlotPlan::decode(std::span<const SlotValues> tensors, ConstBytes outward, SlotChanges& changed) const {
  blocks_.checkTensors(tensors);
  blocks_.checkOutward(outward.size());
  for (const Slot& slot : blocks_.slots()) {
    if (slot.owner == blocks_.rank()) continue;
    const SlotValues& values = tensors[slot.tensor];
    const ConstBytes message = blocks_.outwardMessage(slot, outward);
    const WireHeader header = checkedHeader(slot, message, slot.owner);
    if ((header.flags & kFlagAbsent) != 0) {
      changed.restore(slot.workerKey);  // the tensor has the average, zeros, already
      continue;
    }
    readTo(slot, message, slot.owner, values);
    const bool empty = header.payloadBytes == 0 && slot.count > 0;
    if (changed.keepsStates() &&
        (empty || (header.flags & kFlagNotFinite) != 0 || !isFiniteThere(slot, values, true)))
      changed.discard();
  }
}

void SlotPlan::averageWhole(std::span<const SlotValues> tensors, double factor, ConstBytes outward,
                            ConstBytes inward, SlotChanges& changed) const {
  blocks_.checkTensors(tensors);
  blocks_.checkOutward(outward.size());
  blocks_.checkInward(inward.size());
  for (const Slot& slot : blocks_.slots()) {
    const SlotValues& values = tensors[slot.tensor];
    if (slot.raw) {
      averageRaw(slot, values, factor, inward);
      if (changed.keepsStates() && !isFiniteThere(slot, values, false)) changed.discard();
      continue;
    }
    if (isAbsent(slot, values, inward)) {
      changed.restore(slot.workerKey);
      continue;
    }
    const bool inPlace = values.dtype == DType::kFloat32;
    const auto sum = inPlace ? floatsOf(slot, values) : scratch(slot.count, 0);
    for (int rank = 0; rank < blocks_.world(); ++rank) {
      const ConstBytes message = rank == blocks_.rank() ? blocks_.outwardMessage(slot, outward)
                                                        : blocks_.contribution(slot, inward, rank);
      read(slot, message, rank, rank == 0 ? DecodeMode::kAssign : DecodeMode::kAccumulate, sum);
    }
    bool finite = true;
    if (changed.keepsStates()) {
      finite = multiplyToFinite(sum, static_cast<float>(factor));
    } else {
      multiply(sum, static_cast<float>(factor));
    }
    if (!inPlace) narrow(sum, values.dtype, elementsOf(slot, values));
    if (changed.keepsStates() && (!finite || !isFiniteThere(slot, values, true))) changed.discard();
  }
}

}  // namespace hipress
