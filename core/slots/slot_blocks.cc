// SPDX-License-Identifier: Apache-2.0
#include "core/slots/slot_blocks.h"

#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "core/codec/wire/wire_header.h"

namespace hipress {
namespace {

size_t messageBytes(const Slot& slot) {
  return kWireHeaderBytes + slot.payloadBytes;
}

void checkSize(size_t given, size_t wanted, const char* what) {
  if (given == wanted) return;
  throw invalidArgument(std::string(what) + " has " + std::to_string(given) +
                        " bytes, and the plan's slots " + std::to_string(wanted));
}

}  // namespace

bool keepsStates(const Slot& slot) {
  return !slot.raw && (!slot.codec->states().empty() ||
                       (slot.aggregateCodec != nullptr && !slot.aggregateCodec->states().empty()));
}

EncodeContext encodeContext(const Slot& slot, SlotStep step, SlotPurpose purpose, float factor) {
  EncodeContext context;
  context.seed = step.seed + (static_cast<uint64_t>(purpose) << 32);
  context.step = step.step;
  context.tensor = slot.number;
  context.firstElement = slot.firstElement;
  context.scale = purpose == SlotPurpose::kContribution ? factor * slot.codec->gradientFactor() : factor;
  return context;
}

double rawFactor(const Slot& slot, double factor) {
  return (slot.scaled ? 1.0 : factor) * slot.codec->gradientFactor();
}

SlotBlocks::SlotBlocks(std::vector<Slot> slots, int rank, int world, bool whole)
    : slots_(std::move(slots)), rank_(rank), world_(world), whole_(whole) {
  if (rank < 0 || rank >= world) throw invalidArgument("the rank of a plan must be in its group");
  blockBytes_.resize(static_cast<size_t>(world));
  for (const Slot& slot : slots_) {
    if (slot.owner < 0 || slot.owner >= world || slot.codec == nullptr)
      throw invalidArgument("a slot needs an owner of the group, and a codec");
    const size_t least =
        slot.raw ? slot.count * elementSize(slot.dtype) : slot.codec->maxEncodedBytes(slot.count);
    if (slot.payloadBytes < least || (slot.raw && slot.payloadBytes != least))
      throw invalidArgument("the slot of '" + slot.name + "' has another size than its payload needs");
    size_t& bytes = blockBytes_[static_cast<size_t>(slot.owner)];
    if (slot.offset != bytes) throw invalidArgument("the slots of an owner must be contiguous");
    bytes += messageBytes(slot) + slot.padding;
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

Bytes SlotBlocks::outwardMessage(const Slot& slot, Bytes outward) const {
  const size_t start = whole_ ? 0 : outwardStarts_[static_cast<size_t>(slot.owner)];
  return outward.subspan(start + slot.offset, messageBytes(slot));
}

ConstBytes SlotBlocks::outwardMessage(const Slot& slot, ConstBytes outward) const {
  const size_t start = whole_ ? 0 : outwardStarts_[static_cast<size_t>(slot.owner)];
  return outward.subspan(start + slot.offset, messageBytes(slot));
}

Bytes SlotBlocks::inwardMessage(const Slot& slot, Bytes inward, size_t block) const {
  return inward.subspan(block * blockBytes(slot.owner) + slot.offset, messageBytes(slot));
}

ConstBytes SlotBlocks::contribution(const Slot& slot, ConstBytes inward, int rank) const {
  const auto block = static_cast<size_t>(rank < rank_ ? rank : rank - 1);
  return inward.subspan(block * blockBytes(slot.owner) + slot.offset, messageBytes(slot));
}

void SlotBlocks::checkTensors(std::span<const SlotValues> tensors) const {
  if (tensors.size() < tensors_) throw invalidArgument("the plan has more tensors than are given");
  for (const Slot& slot : slots_) {
    if (slot.first + slot.count > tensors[slot.tensor].count)
      throw invalidArgument("tensor '" + slot.name + "' has fewer elements than its slots");
    if (tensors[slot.tensor].dtype != slot.dtype)
      throw invalidArgument("tensor '" + slot.name + "' has elements of type " +
                            std::string(dtypeName(tensors[slot.tensor].dtype)) + ", and its slots are for " +
                            std::string(dtypeName(slot.dtype)));
  }
}

void SlotBlocks::checkOutward(size_t bytes) const {
  checkSize(bytes, outwardBytes_, "the outward memory");
}

void SlotBlocks::checkInward(size_t bytes) const {
  checkSize(bytes, inwardBytes_, "the inward memory");
}

}  // namespace hipress
