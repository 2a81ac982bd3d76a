// SPDX-License-Identifier: Apache-2.0
#include "core/slots/slot_plan.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "core/base/error.h"
#include "core/codec/merged_decoded.h"
#include "core/codec/wire/wire_header.h"
#include "core/slots/slot_shared.h"

namespace hipress {
namespace {

constexpr size_t kPayloadBytesAt = 16;  // in a header: docs/wire-format.md

std::span<float> floatsOf(const Slot& slot, const SlotValues& values) {
  return {reinterpret_cast<float*>(values.data) + slot.first, slot.count};
}

/// The elements of the slot.
Bytes bytesOf(const Slot& slot, const SlotValues& values) {
  return {elementsOnDevice(slot, values), slot.count * elementSize(slot.dtype)};
}

Bytes rawPayloadOf(const Slot& slot, Bytes message) {
  return message.subspan(kWireHeaderBytes, slot.payloadBytes);
}

/// The average of a raw slot, in the type of the tensor, into `own`.
void averageRaw(DeviceStream& stream, const SlotBlocks& blocks, const Slot& slot, const SlotValues& own,
                double factor, ConstBytes inward) {
  std::vector<const void*> contributions;
  for (int rank = 0; rank < blocks.world(); ++rank) {
    contributions.push_back(rank == blocks.rank()
                                ? elementsOnDevice(slot, own)
                                : blocks.contribution(slot, inward, rank).data() + kWireHeaderBytes);
  }
  // One thread reads the element of each contribution before it writes that of the result.
  stream.combine(Combination::kSum, slot.dtype, contributions, slot.count, rawFactor(slot, factor),
                 elementsOnDevice(slot, own));
}

/// The slot's values times `factor`, in float32. Unless the tensor has these values, they are in the queue's
/// memory.
std::span<const float> times(SlotQueue& queue, float factor, const Slot& slot, const SlotValues& own) {
  if (own.dtype == DType::kFloat32 && factor == 1.0F) return floatsOf(slot, own);
  const void* const elements = elementsOnDevice(slot, own);
  const std::span<float> floats = queue.own(slot.count);
  if (slot.count > 0)
    queue.stream().add(own.dtype, std::span(&elements, 1), factor, DecodeMode::kAssign, floats);
  return floats;
}

/// The float32 values to where the tensor is, in its type.
void write(DeviceStream& stream, std::span<const float> floats, DType dtype, std::byte* to) {
  if (dtype != DType::kFloat32) return stream.narrow(floats, dtype, to);
  stream.copy(to, std::as_bytes(floats));
}

}  // namespace

SlotPlan::Shared::Shared(SlotBlocks travelling, std::shared_ptr<Device> owner)
    : blocks(std::move(travelling)), device(std::move(owner)) {
  for (const Slot& slot : blocks.slots()) {
    if ((kWireHeaderBytes + slot.payloadBytes + slot.padding) % kSlotAlignment != 0)
      throw invalidArgument("the slot of '" + slot.name + "' is not padded");
    if (slot.raw) continue;
    keepsStates = keepsStates || hipress::keepsStates(slot);
    for (const CodecPointer& codec : {slot.codec, slot.aggregateCodec}) {
      if (codec != nullptr && !functions.contains(codec.get()))
        functions.emplace(codec.get(), device->codec(codec));
    }
  }
  words = std::make_unique<const SlotWords>(blocks, device);
}

SlotPlan::SlotPlan(std::vector<Slot> slots, int rank, int world, bool whole, std::shared_ptr<Device> device)
    : shared_(std::make_shared<Shared>(SlotBlocks(std::move(slots), rank, world, whole), std::move(device))) {
}

const SlotBlocks& SlotPlan::blocks() const {
  return shared_->blocks;
}

const DeviceCodec& SlotPlan::functions(const CodecPointer& codec) const {
  return *shared_->functions.at(codec.get());
}

void SlotPlan::prepare(DeviceStream& stream, Bytes outward, Bytes inward) {
  blocks().checkOutward(outward.size());
  blocks().checkInward(inward.size());
  stream.fillZeros(outward);
  stream.fillZeros(inward);
}

void SlotPlan::encodeInto(SlotQueue& queue, size_t number, std::span<const float> values, float factor,
                          SlotPurpose purpose, SlotStateTable& table, SlotStep step, Bytes message,
                          SlotChanges& changed) {
  const Slot& slot = blocks().slots()[number];
  if (slot.count == 0) return;
  const bool byWorker = purpose == SlotPurpose::kContribution;
  const CodecPointer& codec = byWorker ? slot.codec : slot.aggregateCodec;
  std::shared_ptr<SlotStates> states;
  const std::string& key = byWorker ? slot.workerKey : slot.aggregatorKey;
  if (!codec->states().empty()) {
    states = table.at(key);
    states->keep(codec->states(), slot.count);
  }
  DeviceEncode call;
  call.codec = codec.get();
  call.deviceCodec = &functions(codec);
  call.input = values;
  if (states != nullptr) call.states = states->lists();
  call.context = encodeContext(slot, step, purpose, factor);
  call.message = message.subspan(kWireHeaderBytes);
  call.result = shared_->words->encoded(number, purpose);
  queue.stream().encode(call);
  if (states == nullptr) return;
  // If the encoding fails, the average is not finite, and the device puts the states back.
  states->exchange();
  changed.add(key, std::move(states), shared_->words->absent(number), shared_);
}

void SlotPlan::encode(SlotQueue& queue, std::span<const SlotValues> tensors, SlotStateTable& states,
                      SlotStep step, Bytes outward, SlotChanges& changed) {
  DeviceStream& stream = queue.stream();
  blocks().checkTensors(tensors);
  blocks().checkOutward(outward.size());
  findZeros(stream, tensors, changed);
  std::vector<SlotSeal> sealed;
  for (size_t number = 0; number < blocks().slots().size(); ++number) {
    const Slot& slot = blocks().slots()[number];
    if (isOwn(slot)) continue;
    const Bytes message = blocks().outwardMessage(slot, outward);
    sealed.push_back(sealOf(number, message.data(), SlotPurpose::kContribution));
    const SlotValues& own = tensors[slot.tensor];
    if (slot.raw) {
      if (slot.count > 0) stream.copy(rawPayloadOf(slot, message).data(), bytesOf(slot, own));
      continue;
    }
    encodeInto(queue, number, times(queue, 1.0F, slot, own), 1.0F, SlotPurpose::kContribution, states, step,
               message, changed);
  }
  stream.seal(sealed, changed.verdict());
  if (!blocks().whole()) return;
  const Bytes own = outward.first(blocks().blockBytes(0));
  for (size_t start = own.size(); start < outward.size(); start += own.size())
    stream.copy(outward.data() + start, own);
}

void SlotPlan::average(SlotQueue& queue, std::span<const SlotValues> tensors, SlotStateTable& states,
                       SlotStep step, double factor, Bytes inward, SlotChanges& changed) {
  DeviceStream& stream = queue.stream();
  blocks().checkTensors(tensors);
  blocks().checkInward(inward.size());
  checkContributions(stream, inward, changed);
  std::vector<SlotSeal> sealed;
  std::vector<SlotSpan> averages;
  for (size_t number = 0; number < blocks().slots().size(); ++number) {
    const Slot& slot = blocks().slots()[number];
    if (slot.owner != blocks().rank()) continue;
    const SlotValues& own = tensors[slot.tensor];
    const auto scale = static_cast<float>(factor);
    const Bytes result = blocks().inwardMessage(slot, inward, 0);
    const bool isSent = slot.aggregateCodec != nullptr;
    sealed.push_back(sealOf(number, isSent ? result.data() : nullptr, SlotPurpose::kResult));
    if (slot.count == 0) continue;
    averages.push_back(spanOf(number, own, shared_->words->absent(number)));
    if (slot.raw) {
      averageRaw(stream, blocks(), slot, own, factor, inward);
      if (isSent) stream.copy(rawPayloadOf(slot, result).data(), bytesOf(slot, own));
    } else {
      const auto contributions = contributionsTo(queue, number, own, states, step, inward, changed);
      if (!isSent) {
        sumTo(queue, number, contributions, scale, own);
        continue;
      }
      sum(queue, number, contributions, 1.0F, queue.sum(slot.count));
      encodeInto(queue, number, queue.sum(slot.count), scale, SlotPurpose::kResult, states, step, result,
                 changed);
      decodeTo(queue, number, unsealed(number, result, SlotPurpose::kResult), own);
    }
    const bool tells = !slot.raw && !slot.aggregateCodec->states().empty() && !narrows(own.dtype);
    if (changed.keepsStates() && isSent && !tells) {
      const SlotSpan values = spanOf(number, own, shared_->words->notFinite(number));
      stream.findNotFinite(own.dtype, std::span(&values, 1));
    }
  }
  stream.seal(sealed, changed.verdict());
  stream.clearUnlessZero(averages);
  for (const Slot& slot : blocks().slots()) {
    if (slot.owner != blocks().rank() || slot.aggregateCodec == nullptr) continue;
    const Bytes result = blocks().inwardMessage(slot, inward, 0);
    for (size_t block = 1; block + 1 < static_cast<size_t>(blocks().world()); ++block)
      stream.copy(blocks().inwardMessage(slot, inward, block).data(), result);
  }
}

DeviceContribution SlotPlan::messageOf(size_t number, ConstBytes message, int sender) const {
  DeviceContribution one;
  one.payload = message.subspan(kWireHeaderBytes);
  one.payloadBytes = reinterpret_cast<const uint32_t*>(message.data() + kPayloadBytesAt);
  one.error = shared_->words->decoding(number, sender);
  return one;
}

DeviceContribution SlotPlan::unsealed(size_t number, ConstBytes message, SlotPurpose purpose) const {
  DeviceContribution one = messageOf(number, message, blocks().rank());
  one.payloadBytes = shared_->words->encoded(number, purpose);
  return one;
}

std::vector<DeviceContribution> SlotPlan::contributionsTo(SlotQueue& queue, size_t number,
                                                          const SlotValues& own, SlotStateTable& states,
                                                          SlotStep step, ConstBytes inward,
                                                          SlotChanges& changed) {
  const Slot& slot = blocks().slots()[number];
  std::vector<DeviceContribution> all;
  for (int rank = 0; rank < blocks().world(); ++rank) {
    if (rank != blocks().rank()) {
      all.push_back(messageOf(number, blocks().contribution(slot, inward, rank), rank));
      continue;
    }
    if (!mergesDecoded(*slot.codec)) {
      all.emplace_back().values = times(queue, slot.codec->gradientFactor(), slot, own).data();
      continue;
    }
    const Bytes message = queue.message(kWireHeaderBytes + slot.payloadBytes);
    encodeInto(queue, number, times(queue, 1.0F, slot, own), 1.0F, SlotPurpose::kContribution, states, step,
               message, changed);
    all.push_back(unsealed(number, message, SlotPurpose::kContribution));
  }
  return all;
}

void SlotPlan::sum(SlotQueue& queue, size_t number, std::span<const DeviceContribution> contributions,
                   float factor, std::span<float> output) {
  const Slot& slot = blocks().slots()[number];
  DeviceSum call;
  call.codec = slot.codec.get();
  call.deviceCodec = &functions(slot.codec);
  call.contributions = contributions;
  call.factor = factor;
  call.output = output;
  queue.stream().sum(call);
}

void SlotPlan::sumTo(SlotQueue& queue, size_t number, std::span<const DeviceContribution> contributions,
                     float factor, const SlotValues& values) {
  const Slot& slot = blocks().slots()[number];
  const bool areMessages =
      std::ranges::all_of(contributions, [](const DeviceContribution& one) { return one.values == nullptr; });
  // Where one contribution is added after the other, the tensor's own values must stay until their turn.
  const bool inPlace = areMessages || functions(slot.codec).sumsAtOnce();
  if (values.dtype == DType::kFloat32 && inPlace)
    return sum(queue, number, contributions, factor, floatsOf(slot, values));
  sum(queue, number, contributions, factor, queue.sum(slot.count));
  write(queue.stream(), queue.sum(slot.count), values.dtype, elementsOnDevice(slot, values));
}

void SlotPlan::decodeTo(SlotQueue& queue, size_t number, const DeviceContribution& one,
                        const SlotValues& values) {
  const Slot& slot = blocks().slots()[number];
  const bool inPlace = values.dtype == DType::kFloat32;
  DeviceDecode call;
  call.codec = slot.codec.get();
  call.deviceCodec = &functions(slot.codec);
  call.payload = one.payload;
  call.payloadBytes = one.payloadBytes;
  call.output = inPlace ? floatsOf(slot, values) : queue.sum(slot.count);
  call.error = one.error;
  queue.stream().decode(call);
  if (!inPlace) write(queue.stream(), queue.sum(slot.count), values.dtype, elementsOnDevice(slot, values));
}

void SlotPlan::decode(SlotQueue& queue, std::span<const SlotValues> tensors, ConstBytes outward,
                      SlotChanges& changed) {
  DeviceStream& stream = queue.stream();
  blocks().checkTensors(tensors);
  blocks().checkOutward(outward.size());
  std::vector<SlotCheck> come;
  for (size_t number = 0; number < blocks().slots().size(); ++number) {
    const Slot& slot = blocks().slots()[number];
    if (!isOwn(slot)) come.push_back(checkOf(number, blocks().outwardMessage(slot, outward), slot.owner));
  }
  stream.check(come, changed.verdict());
  std::vector<SlotSpan> cleared;
  for (size_t number = 0; number < blocks().slots().size(); ++number) {
    const Slot& slot = blocks().slots()[number];
    if (isOwn(slot) || slot.count == 0) continue;
    const SlotValues& values = tensors[slot.tensor];
    const ConstBytes message = blocks().outwardMessage(slot, outward);
    if (slot.raw) {
      stream.copy(elementsOnDevice(slot, values), message.subspan(kWireHeaderBytes, slot.payloadBytes));
    } else {
      decodeTo(queue, number, messageOf(number, message, slot.owner), values);
    }
    cleared.push_back(spanOf(number, values, shared_->words->absent(number)));
    if (!slot.raw) cleared.push_back(spanOf(number, values, shared_->words->decoding(number, slot.owner)));
  }
  stream.clearUnlessZero(cleared);
  lookAt(stream, tensors, changed,
         [&](const Slot& slot, DType dtype) { return !isOwn(slot) && !slot.raw && narrows(dtype); });
}

void SlotPlan::averageWhole(SlotQueue& queue, std::span<const SlotValues> tensors, double factor,
                            ConstBytes outward, ConstBytes inward, SlotChanges& changed) {
  DeviceStream& stream = queue.stream();
  blocks().checkTensors(tensors);
  blocks().checkOutward(outward.size());
  blocks().checkInward(inward.size());
  checkContributions(stream, inward, changed);
  std::vector<SlotSeal> concluded;
  std::vector<SlotSpan> averages;
  for (size_t number = 0; number < blocks().slots().size(); ++number) {
    const Slot& slot = blocks().slots()[number];
    if (slot.count == 0) continue;
    if (slot.raw) {
      averageRaw(stream, blocks(), slot, tensors[slot.tensor], factor, inward);
    } else {
      std::vector<DeviceContribution> contributions;
      for (int rank = 0; rank < blocks().world(); ++rank) {
        contributions.push_back(messageOf(number,
                                          rank == blocks().rank() ? blocks().outwardMessage(slot, outward)
                                                                  : blocks().contribution(slot, inward, rank),
                                          rank));
      }
      sumTo(queue, number, contributions, static_cast<float>(factor), tensors[slot.tensor]);
    }
    concluded.push_back(sealOf(number, nullptr, SlotPurpose::kResult));
    averages.push_back(spanOf(number, tensors[slot.tensor], shared_->words->absent(number)));
  }
  stream.seal(concluded, changed.verdict());
  stream.clearUnlessZero(averages);
  lookAt(stream, tensors, changed, [](const Slot&, DType) { return true; });
}

void SlotPlan::check(DeviceStream& stream, const SlotChanges& changed) {
  shared_->words->tell(stream);
  stream.whenDone([shared = shared_, verdict = changed.memory()](const Failure& failure) {
    if (failure != nullptr) return shared->fail(*failure);
    shared->readWords();
  });
}

void SlotPlan::raise() const {
  const std::lock_guard lock(shared_->mutex);
  if (shared_->failure != nullptr) throw Error(*shared_->failure);
}

}  // namespace hipress
