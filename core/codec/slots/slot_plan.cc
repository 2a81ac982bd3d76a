// SPDX-License-Identifier: Apache-2.0
#include "core/codec/slots/slot_plan.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "core/base/error.h"
#include "core/codec/wire/wire_header.h"
#include "core/element/convert.h"
#include "core/element/reduce.h"

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

Bytes payloadOf(const Slot& slot, Bytes message) {
  return message.subspan(kWireHeaderBytes, slot.payloadBytes);
}

void seal(const Slot& slot, size_t payloadBytes, Bytes message) {
  WireHeader header;
  header.flags = slot.raw ? kFlagRaw : 0;
  header.codec = slot.codec->id();
  header.elementCount = slot.count;
  header.payloadBytes = payloadBytes;
  std::ranges::copy(packHeader(header), message.begin());
}

Error inContext(const Error& error, const Slot& slot, int sender) {
  return {error.kind(), "tensor '" + slot.name + "', partition " + std::to_string(slot.partition) +
                            ", from rank " + std::to_string(sender) + " of the group: " + error.what()};
}

/// Checks a message's header against the plan and returns the payload.
ConstBytes checkedPayload(const Slot& slot, ConstBytes message) {
  WireHeaderBytes bytes;
  std::ranges::copy(message.first(kWireHeaderBytes), bytes.begin());
  ExpectedMessage expected;
  expected.codec = slot.codec->id();
  expected.elementCount = slot.count;
  expected.maxPayloadBytes = slot.payloadBytes;
  const WireHeader header = unpackHeader(bytes, expected);
  if ((header.flags & ~kFlagRaw) != 0) throw corruptPayload("the header has flags of the engine's messages");
  if (((header.flags & kFlagRaw) != 0) != slot.raw)
    throw corruptPayload("the payload is raw on one side only");
  if (slot.raw && header.payloadBytes != slot.payloadBytes)
    throw corruptPayload("a raw payload has " + std::to_string(header.payloadBytes) + " bytes, not " +
                         std::to_string(slot.payloadBytes));
  return message.subspan(kWireHeaderBytes, header.payloadBytes);
}

/// Decodes the payload and assigns the values to `output`, or adds them.
void read(const Slot& slot, ConstBytes message, int sender, DecodeMode mode, std::span<float> output) {
  try {
    const ConstBytes payload = checkedPayload(slot, message);
    if (!slot.raw) return slot.codec->decode(payload, output, mode);
    const std::array<const void*, 2> both = {output.data(), payload.data()};
    const bool adds = mode == DecodeMode::kAccumulate;
    reduceInOrder(DType::kFloat32, adds ? std::span<const void* const>(both) : std::span(both).last(1),
                  output.size(), 1.0, output.data());
  } catch (const Error& error) {
    throw inContext(error, slot, sender);
  }
}

/// Decodes the payload into the tensor.
void readTo(const Slot& slot, ConstBytes message, int sender, const SlotValues& values) {
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

/// Writes float32 values into the tensor, in the tensor's element type.
void writeTo(const Slot& slot, std::span<const float> floats, const SlotValues& values) {
  if (values.dtype != DType::kFloat32) return narrow(floats, values.dtype, elementsOf(slot, values));
  std::ranges::copy(floats, floatsOf(slot, values).begin());
}

void checkSize(size_t given, size_t wanted, const char* what) {
  if (given == wanted) return;
  throw invalidArgument(std::string(what) + " has " + std::to_string(given) +
                        " bytes, and the plan's slots " + std::to_string(wanted));
}

}  // namespace

SlotPlan::SlotPlan(std::vector<Slot> slots, int rank, int world, bool whole)
    : slots_(std::move(slots)), rank_(rank), world_(world), whole_(whole) {
  if (rank < 0 || rank >= world) throw invalidArgument("the rank of a plan must be in its group");
  blockBytes_.resize(static_cast<size_t>(world));
  for (const Slot& slot : slots_) {
    if (slot.owner < 0 || slot.owner >= world || slot.codec == nullptr)
      throw invalidArgument("a slot needs an owner of the group, and a codec");
    const size_t least = slot.raw ? slot.count * sizeof(float) : slot.codec->maxEncodedBytes(slot.count);
    if (slot.payloadBytes < least || (slot.raw && slot.payloadBytes != least))
      throw invalidArgument("the slot of '" + slot.name + "' has another size than its payload needs");
    size_t& bytes = blockBytes_[static_cast<size_t>(slot.owner)];
    if (slot.offset != bytes) throw invalidArgument("the slots of an owner must be contiguous");
    bytes += kWireHeaderBytes + slot.payloadBytes;
    tensors_ = std::max(tensors_, slot.tensor + 1);
  }
  const auto others = static_cast<size_t>(std::max(world - 1, 1));
  if (whole) {
    outwardBytes_ = others * blockBytes_[0];
    inwardBytes_ = static_cast<size_t>(world - 1) * blockBytes_[0];
    return;
  }
  for (int owner = 0; owner < world; ++owner) {
    outwardStarts_.push_back(outwardBytes_);
    if (owner != rank) outwardBytes_ += blockBytes(owner);
  }
  inwardBytes_ = others * blockBytes(rank);
}

void SlotPlan::checkTensors(std::span<const SlotValues> tensors) const {
  if (tensors.size() < tensors_) throw invalidArgument("the plan has more tensors than are given");
  for (const Slot& slot : slots_) {
    if (slot.first + slot.count > tensors[slot.tensor].count)
      throw invalidArgument("tensor '" + slot.name + "' has fewer elements than its slots");
  }
}

Bytes SlotPlan::inBlock(const Slot& slot, Bytes blocks, size_t block) const {
  const size_t start = block * blockBytes_[static_cast<size_t>(slot.owner)];
  return blocks.subspan(start + slot.offset, kWireHeaderBytes + slot.payloadBytes);
}

ConstBytes SlotPlan::contribution(const Slot& slot, ConstBytes inward, int rank) const {
  const size_t start = placeOf(rank) * blockBytes_[static_cast<size_t>(slot.owner)];
  return inward.subspan(start + slot.offset, kWireHeaderBytes + slot.payloadBytes);
}

void SlotPlan::encodeInto(const Slot& slot, std::span<const float> values, float factor, Purpose purpose,
                          SlotStateTable& table, SlotStep step, Bytes message, SlotChanges& changed) const {
  const bool byWorker = purpose == Purpose::kContribution;
  const Codec& codec = byWorker ? *slot.codec : *slot.aggregateCodec;
  EncodeContext context;
  context.seed = step.seed + (static_cast<uint64_t>(purpose) << 32);
  context.step = step.step;
  context.tensor = slot.number;
  context.firstElement = slot.firstElement;
  context.scale = factor;
  std::shared_ptr<SlotStates> states;
  if (!codec.states().empty()) {
    states = table.at(byWorker ? slot.workerKey : slot.aggregatorKey);
    states->keep(codec.states(), slot.count);
  }
  const size_t bytes = codec.encode(values, states == nullptr ? EncodeStates{} : states->lists(), context,
                                    payloadOf(slot, message));
  if (bytes > 0 && states != nullptr) {
    states->exchange();
    changed.add(std::move(states));
  }
  seal(slot, bytes, message);
}

void SlotPlan::encode(std::span<const SlotValues> tensors, SlotStateTable& states, SlotStep step,
                      Bytes outward, SlotChanges& changed) const {
  checkTensors(tensors);
  checkSize(outward.size(), outwardBytes_, "the outward memory");
  for (const Slot& slot : slots_) {
    if (!whole_ && slot.owner == rank_) continue;
    const size_t start = whole_ ? 0 : outwardStarts_[static_cast<size_t>(slot.owner)];
    const Bytes message = outward.subspan(start + slot.offset, kWireHeaderBytes + slot.payloadBytes);
    const auto values = widened(slot, tensors[slot.tensor], 0);
    if (!slot.raw) {
      encodeInto(slot, values, 1.0f, Purpose::kContribution, states, step, message, changed);
      continue;
    }
    if (!values.empty()) std::memcpy(payloadOf(slot, message).data(), values.data(), values.size_bytes());
    seal(slot, slot.payloadBytes, message);
  }
  if (!whole_) return;
  const Bytes own = outward.first(blockBytes_[0]);
  for (size_t start = own.size(); start < outward.size(); start += own.size())
    std::ranges::copy(own, outward.subspan(start).begin());
}

void SlotPlan::average(std::span<const SlotValues> tensors, SlotStateTable& states, SlotStep step,
                       float factor, Bytes inward, SlotChanges& changed) const {
  checkTensors(tensors);
  checkSize(inward.size(), inwardBytes_, "the inward memory");
  for (const Slot& slot : slots_) {
    if (slot.owner != rank_) continue;
    const SlotValues& own = tensors[slot.tensor];
    const float scale = slot.scaled ? 1.0f : factor;
    if (slot.aggregateCodec == nullptr) {
      const auto sum = scratch(slot.count, 0);
      addInOrder(slot, own, inward, sum);
      multiply(sum, scale);
      writeTo(slot, sum, own);
      continue;
    }
    if (slot.raw) {
      averageRaw(slot, own, scale, inward);
    } else {
      averageEncoded(slot, own, states, step, scale, inward, changed);
    }
    // The sum has read the contributions in all blocks. The average now replaces them.
    const Bytes result = inBlock(slot, inward, 0);
    for (size_t block = 1; block + 1 < static_cast<size_t>(world_); ++block)
      std::ranges::copy(result, inBlock(slot, inward, block).begin());
    readTo(slot, result, rank_, own);
  }
}

void SlotPlan::addInOrder(const Slot& slot, const SlotValues& own, ConstBytes inward,
                          std::span<float> sum) const {
  for (int rank = 0; rank < world_; ++rank) {
    if (rank != rank_) {
      const DecodeMode mode = rank == 0 ? DecodeMode::kAssign : DecodeMode::kAccumulate;
      read(slot, contribution(slot, inward, rank), rank, mode, sum);
      continue;
    }
    const std::array<const void*, 2> both = {sum.data(), widened(slot, own, 1).data()};
    reduceInOrder(DType::kFloat32, rank == 0 ? std::span(both).last(1) : std::span<const void* const>(both),
                  slot.count, 1.0, sum.data());
  }
}

void SlotPlan::averageEncoded(const Slot& slot, const SlotValues& own, SlotStateTable& states, SlotStep step,
                              float factor, Bytes inward, SlotChanges& changed) const {
  const auto sum = scratch(slot.count, 0);
  addInOrder(slot, own, inward, sum);
  encodeInto(slot, sum, factor, Purpose::kResult, states, step, inBlock(slot, inward, 0), changed);
}

void SlotPlan::averageRaw(const Slot& slot, const SlotValues& own, float factor, Bytes inward) const {
  std::vector<const void*> contributions;
  for (int rank = 0; rank < world_; ++rank) {
    if (rank == rank_) {
      contributions.push_back(widened(slot, own, 0).data());
      continue;
    }
    try {
      contributions.push_back(checkedPayload(slot, contribution(slot, inward, rank)).data());
    } catch (const Error& error) {
      throw inContext(error, slot, rank);
    }
  }
  const Bytes result = inBlock(slot, inward, 0);
  reduceInOrder(DType::kFloat32, contributions, slot.count, factor, payloadOf(slot, result).data());
  seal(slot, slot.payloadBytes, result);
}

void SlotPlan::decode(std::span<const SlotValues> tensors, ConstBytes outward) const {
  checkTensors(tensors);
  checkSize(outward.size(), outwardBytes_, "the outward memory");
  for (const Slot& slot : slots_) {
    if (slot.owner == rank_) continue;
    const size_t start = outwardStarts_[static_cast<size_t>(slot.owner)] + slot.offset;
    readTo(slot, outward.subspan(start, kWireHeaderBytes + slot.payloadBytes), slot.owner,
           tensors[slot.tensor]);
  }
}

void SlotPlan::averageWhole(std::span<const SlotValues> tensors, float factor, ConstBytes outward,
                            ConstBytes inward) const {
  checkTensors(tensors);
  checkSize(outward.size(), outwardBytes_, "the outward memory");
  checkSize(inward.size(), inwardBytes_, "the inward memory");
  for (const Slot& slot : slots_) {
    const SlotValues& values = tensors[slot.tensor];
    const bool inPlace = values.dtype == DType::kFloat32;
    const auto sum = inPlace ? floatsOf(slot, values) : scratch(slot.count, 0);
    for (int rank = 0; rank < world_; ++rank) {
      const ConstBytes message = rank == rank_
                                     ? outward.subspan(slot.offset, kWireHeaderBytes + slot.payloadBytes)
                                     : contribution(slot, inward, rank);
      read(slot, message, rank, rank == 0 ? DecodeMode::kAssign : DecodeMode::kAccumulate, sum);
    }
    multiply(sum, slot.scaled ? 1.0f : factor);
    if (!inPlace) narrow(sum, values.dtype, elementsOf(slot, values));
  }
}

}  // namespace hipress
