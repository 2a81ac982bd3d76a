// SPDX-License-Identifier: Apache-2.0
#include "core/device/slots/device_slot_plan.h"

#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "core/base/error.h"
#include "core/codec/merged_decoded.h"
#include "core/codec/wire/wire_header.h"

namespace hipress {
namespace {

/// Words of a slot: length and error of its two encodings; then the error of decoding each rank's message.
constexpr size_t kEncodeWords = 2;
constexpr size_t kFirstDecodeWord = 2 * kEncodeWords;
constexpr size_t kPayloadBytesAt = 16;  // in a header: docs/wire-format.md

size_t wordsOf(const SlotBlocks& blocks) {
  return kFirstDecodeWord + static_cast<size_t>(blocks.world());
}

size_t mostElements(const SlotBlocks& blocks) {
  size_t most = 1;
  for (const Slot& slot : blocks.slots()) most = std::max(most, slot.count);
  return most;
}

/// Bytes of the largest message of a slot whose owner merges its own message; 0: there is none.
size_t mostOwnMessage(const SlotBlocks& blocks) {
  size_t most = 0;
  for (const Slot& slot : blocks.slots()) {
    if (!blocks.whole() && !slot.raw && slot.owner == blocks.rank() && mergesDecoded(*slot.codec))
      most = std::max(most, kWireHeaderBytes + slot.payloadBytes);
  }
  return most;
}

std::byte* elementsOf(const Slot& slot, const SlotValues& values) {
  return values.data + slot.first * elementSize(values.dtype);
}

std::span<float> floatsOf(const Slot& slot, const SlotValues& values) {
  return {reinterpret_cast<float*>(values.data) + slot.first, slot.count};
}

/// The elements of the slot.
Bytes bytesOf(const Slot& slot, const SlotValues& values) {
  return {elementsOf(slot, values), slot.count * elementSize(slot.dtype)};
}

Bytes rawPayloadOf(const Slot& slot, Bytes message) {
  return message.subspan(kWireHeaderBytes, slot.payloadBytes);
}

/// The float32 values to where the tensor is, in its type.
void write(DeviceStream& stream, std::span<const float> floats, DType dtype, std::byte* to) {
  if (dtype != DType::kFloat32) return stream.narrow(floats, dtype, to);
  stream.copy(to, std::as_bytes(floats));
}

/// The average of a raw slot, in the type of the tensor, into `own`.
void averageRaw(DeviceStream& stream, const SlotBlocks& blocks, const Slot& slot, const SlotValues& own,
                double factor, ConstBytes inward) {
  std::vector<const void*> contributions;
  for (int rank = 0; rank < blocks.world(); ++rank) {
    contributions.push_back(rank == blocks.rank()
                                ? elementsOf(slot, own)
                                : blocks.contribution(slot, inward, rank).data() + kWireHeaderBytes);
  }
  // One thread reads the element of each contribution before it writes that of the result.
  stream.combine(Combination::kSum, slot.dtype, contributions, slot.count, rawFactor(slot, factor),
                 elementsOf(slot, own));
}

WireHeaderBytes headerOf(const Slot& slot) {
  WireHeader header;
  header.flags = slot.raw ? kFlagRaw : 0;
  header.codec = slot.codec->id();
  header.dtype = slot.dtype;
  header.elementCount = slot.count;
  header.payloadBytes = slot.raw ? slot.payloadBytes : 0;  // of an encoding the device writes it
  return packHeader(header);
}

}  // namespace

/// What work on a stream uses: the slots, their codecs, memory of the device and of staging, and the errors.
struct DeviceSlotPlan::Shared {
  Shared(SlotBlocks travelling, std::shared_ptr<Device> owner);
  ~Shared();
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;

  void fail(const Error& error) {
    const std::lock_guard lock(mutex);
    if (failure == nullptr) failure = failureOf(error);
  }
  /// Fails with the first error among the words in staging.
  void readWords();
  /// Memory for the floats of any slot. A model may have many plans, and most need one block or none.
  float* floatsIn(float*& block) {
    if (block == nullptr)
      block = static_cast<float*>(device->memory()->allocate(mostElements(blocks) * sizeof(float)));
    return block;
  }

  const SlotBlocks blocks;
  const std::shared_ptr<Device> device;
  const size_t wordBytes;
  std::map<const Codec*, std::shared_ptr<const DeviceCodec>> functions;
  float* sum = nullptr;          ///< One slot's sum; nullptr: no step has needed it yet.
  float* own = nullptr;          ///< One slot's own values in float32; nullptr as well.
  std::byte* encoded = nullptr;  ///< One slot's own message; nullptr: no codec of the plan merges it.
  uint32_t* found = nullptr;
  uint32_t* told = nullptr;  ///< The words, in staging.
  mutable std::mutex mutex;
  Failure failure;
};

DeviceSlotPlan::Shared::Shared(SlotBlocks travelling, std::shared_ptr<Device> owner)
    : blocks(std::move(travelling)),
      device(std::move(owner)),
      wordBytes(std::max<size_t>(blocks.slots().size() * wordsOf(blocks), 1) * sizeof(uint32_t)) {
  for (const Slot& slot : blocks.slots()) {
    if ((kWireHeaderBytes + slot.payloadBytes + slot.padding) % kDeviceSlotAlignment != 0)
      throw invalidArgument("the slot of '" + slot.name + "' is not padded for a device");
    if (slot.raw) continue;
    for (const CodecPointer& codec : {slot.codec, slot.aggregateCodec}) {
      if (codec != nullptr && !functions.contains(codec.get()))
        functions.emplace(codec.get(), device->codec(codec));
    }
  }
  Memory& memory = *device->memory();
  if (const size_t most = mostOwnMessage(blocks); most > 0)
    encoded = static_cast<std::byte*>(memory.allocate(most));
  found = static_cast<uint32_t*>(memory.allocateZeros(wordBytes));
  told = static_cast<uint32_t*>(device->staging()->allocate(wordBytes));
}

DeviceSlotPlan::Shared::~Shared() {
  Memory& memory = *device->memory();
  if (sum != nullptr) memory.free(sum);
  if (own != nullptr) memory.free(own);
  if (encoded != nullptr) memory.free(encoded);
  memory.free(found);
  device->staging()->free(told);
}

void DeviceSlotPlan::Shared::readWords() {
  const size_t words = wordsOf(blocks);
  for (size_t number = 0; number < blocks.slots().size(); ++number) {
    const Slot& slot = blocks.slots()[number];
    if (slot.raw) continue;
    const std::span<const uint32_t> said(told + number * words, words);
    const std::string where = "tensor '" + slot.name + "', partition " + std::to_string(slot.partition);
    for (const size_t encoding : {size_t{0}, kEncodeWords}) {
      const CodecPointer& codec = encoding == 0 ? slot.codec : slot.aggregateCodec;
      if (const uint32_t error = said[encoding + 1]; error != 0)
        return fail(invalidArgument(where + ": " + functions.at(codec.get())->refusal(error)));
    }
    for (int rank = 0; rank < blocks.world(); ++rank) {
      if (const uint32_t error = said[kFirstDecodeWord + static_cast<size_t>(rank)]; error != 0)
        return fail(corruptPayload(where + ", from rank " + std::to_string(rank) +
                                   " of the group: " + functions.at(slot.codec.get())->refusal(error)));
    }
  }
}

DeviceSlotPlan::DeviceSlotPlan(std::vector<Slot> slots, int rank, int world, bool whole,
                               std::shared_ptr<Device> device)
    : shared_(std::make_shared<Shared>(SlotBlocks(std::move(slots), rank, world, whole), std::move(device))) {
}

const SlotBlocks& DeviceSlotPlan::blocks() const {
  return shared_->blocks;
}

uint32_t* DeviceSlotPlan::word(size_t slot, size_t number) const {
  return shared_->found + slot * wordsOf(blocks()) + number;
}

std::span<float> DeviceSlotPlan::sumOf(const Slot& slot) const {
  return {shared_->floatsIn(shared_->sum), slot.count};
}

const DeviceCodec& DeviceSlotPlan::functions(const CodecPointer& codec) const {
  return *shared_->functions.at(codec.get());
}

void DeviceSlotPlan::prepare(DeviceStream& stream, Bytes outward, Bytes inward) {
  blocks().checkOutward(outward.size());
  blocks().checkInward(inward.size());
  std::vector<std::pair<std::byte*, WireHeaderBytes>> headers;
  const auto copies = static_cast<size_t>(std::max(blocks().world() - 1, 1));
  for (const Slot& slot : blocks().slots()) {
    const WireHeaderBytes header = headerOf(slot);
    if (blocks().whole()) {
      headers.emplace_back(blocks().outwardMessage(slot, outward).data(), header);
    } else if (slot.owner != blocks().rank()) {
      headers.emplace_back(blocks().outwardMessage(slot, outward).data(), header);
    } else {
      for (size_t block = 0; block < copies; ++block)
        headers.emplace_back(blocks().inwardMessage(slot, inward, block).data(), header);
    }
  }
  if (headers.empty()) return;
  const size_t bytes = headers.size() * kWireHeaderBytes;
  // Padding travels, too: the zeros hide the earlier content of the memory.
  stream.fillZeros(outward);
  stream.fillZeros(inward);
  const std::shared_ptr<std::byte> staging(
      static_cast<std::byte*>(shared_->device->staging()->allocate(bytes)),
      [device = shared_->device](std::byte* block) { device->staging()->free(block); });
  for (size_t index = 0; index < headers.size(); ++index) {
    std::byte* const from = staging.get() + index * kWireHeaderBytes;
    std::ranges::copy(headers[index].second, from);
    stream.copyToDevice(headers[index].first, {from, kWireHeaderBytes});
  }
  stream.whenDone([staging](const Failure&) {});
}

void DeviceSlotPlan::encodeInto(DeviceStream& stream, size_t number, std::span<const float> values,
                                float factor, SlotPurpose purpose, SlotStateTable& table, SlotStep step,
                                Bytes message, SlotChanges& changed) {
  const Slot& slot = blocks().slots()[number];
  if (slot.count == 0) return;
  const bool byWorker = purpose == SlotPurpose::kContribution;
  const CodecPointer& codec = byWorker ? slot.codec : slot.aggregateCodec;
  std::shared_ptr<SlotStates> states;
  if (!codec->states().empty()) {
    states = table.at(byWorker ? slot.workerKey : slot.aggregatorKey);
    states->keep(codec->states(), slot.count);
  }
  uint32_t* const words = word(number, byWorker ? 0 : kEncodeWords);
  DeviceEncode call;
  call.codec = codec.get();
  call.deviceCodec = &functions(codec);
  call.input = values;
  if (states != nullptr) call.states = states->lists();
  call.context = encodeContext(slot, step, purpose, factor);
  call.message = message.subspan(kWireHeaderBytes);
  call.result = words;
  stream.encode(call);
  stream.copy(message.data() + kPayloadBytesAt, std::as_bytes(std::span(words, 1)));
  if (states == nullptr) return;
  states->exchange();
  changed.add(std::move(states));
}

std::span<const float> DeviceSlotPlan::times(DeviceStream& stream, float factor, const Slot& slot,
                                             const SlotValues& own) {
  if (own.dtype == DType::kFloat32 && factor == 1.0F) return floatsOf(slot, own);
  const void* const elements = elementsOf(slot, own);
  const std::span<float> floats(shared_->floatsIn(shared_->own), slot.count);
  if (slot.count > 0) stream.add(own.dtype, std::span(&elements, 1), factor, DecodeMode::kAssign, floats);
  return floats;
}

void DeviceSlotPlan::encode(DeviceStream& stream, std::span<const SlotValues> tensors, SlotStateTable& states,
                            SlotStep step, Bytes outward, SlotChanges& changed) {
  blocks().checkTensors(tensors);
  blocks().checkOutward(outward.size());
  for (size_t number = 0; number < blocks().slots().size(); ++number) {
    const Slot& slot = blocks().slots()[number];
    if (!blocks().whole() && slot.owner == blocks().rank()) continue;
    const Bytes message = blocks().outwardMessage(slot, outward);
    const SlotValues& own = tensors[slot.tensor];
    if (slot.raw) {
      if (slot.count > 0) stream.copy(rawPayloadOf(slot, message).data(), bytesOf(slot, own));
      continue;
    }
    encodeInto(stream, number, times(stream, 1.0F, slot, own), 1.0F, SlotPurpose::kContribution, states, step,
               message, changed);
  }
  if (!blocks().whole()) return;
  const Bytes own = outward.first(blocks().blockBytes(0));
  for (size_t start = own.size(); start < outward.size(); start += own.size())
    stream.copy(outward.data() + start, own);
}

void DeviceSlotPlan::average(DeviceStream& stream, std::span<const SlotValues> tensors,
                             SlotStateTable& states, SlotStep step, double factor, Bytes inward,
                             SlotChanges& changed) {
  blocks().checkTensors(tensors);
  blocks().checkInward(inward.size());
  for (size_t number = 0; number < blocks().slots().size(); ++number) {
    const Slot& slot = blocks().slots()[number];
    if (slot.owner != blocks().rank() || slot.count == 0) continue;
    const SlotValues& own = tensors[slot.tensor];
    if (slot.raw) {
      averageRaw(stream, blocks(), slot, own, factor, inward);
      if (slot.aggregateCodec == nullptr) continue;
      for (size_t block = 0; block + 1 < static_cast<size_t>(blocks().world()); ++block)
        stream.copy(rawPayloadOf(slot, blocks().inwardMessage(slot, inward, block)).data(),
                    bytesOf(slot, own));
      continue;
    }
    const auto scale = static_cast<float>(factor);
    const auto contributions = contributionsTo(stream, number, own, states, step, inward, changed);
    if (slot.aggregateCodec == nullptr) {
      sumTo(stream, number, contributions, scale, own);
      continue;
    }
    const Bytes result = blocks().inwardMessage(slot, inward, 0);
    sum(stream, number, contributions, 1.0F, sumOf(slot));
    encodeInto(stream, number, sumOf(slot), scale, SlotPurpose::kResult, states, step, result, changed);
    for (size_t block = 1; block + 1 < static_cast<size_t>(blocks().world()); ++block)
      stream.copy(blocks().inwardMessage(slot, inward, block).data(), result);
    readTo(stream, number, result, blocks().rank(), own);
  }
}

DeviceContribution DeviceSlotPlan::messageOf(size_t number, ConstBytes message, int sender) const {
  DeviceContribution one;
  one.payload = message.subspan(kWireHeaderBytes);
  one.payloadBytes = reinterpret_cast<const uint32_t*>(message.data() + kPayloadBytesAt);
  one.error = word(number, kFirstDecodeWord + static_cast<size_t>(sender));
  return one;
}

std::vector<DeviceContribution> DeviceSlotPlan::contributionsTo(DeviceStream& stream, size_t number,
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
      all.emplace_back().values = times(stream, slot.codec->gradientFactor(), slot, own).data();
      continue;
    }
    const Bytes message(shared_->encoded, kWireHeaderBytes + slot.payloadBytes);
    encodeInto(stream, number, times(stream, 1.0F, slot, own), 1.0F, SlotPurpose::kContribution, states, step,
               message, changed);
    all.push_back(messageOf(number, message, rank));
  }
  return all;
}

void DeviceSlotPlan::sum(DeviceStream& stream, size_t number,
                         std::span<const DeviceContribution> contributions, float factor,
                         std::span<float> output) {
  const Slot& slot = blocks().slots()[number];
  DeviceSum call;
  call.codec = slot.codec.get();
  call.deviceCodec = &functions(slot.codec);
  call.contributions = contributions;
  call.factor = factor;
  call.output = output;
  stream.sum(call);
}

void DeviceSlotPlan::sumTo(DeviceStream& stream, size_t number,
                           std::span<const DeviceContribution> contributions, float factor,
                           const SlotValues& values) {
  const Slot& slot = blocks().slots()[number];
  const bool areMessages =
      std::ranges::all_of(contributions, [](const DeviceContribution& one) { return one.values == nullptr; });
  // Where one contribution is added after the other, the tensor's own values must stay until their turn.
  const bool inPlace = areMessages || functions(slot.codec).sumsAtOnce();
  if (values.dtype == DType::kFloat32 && inPlace)
    return sum(stream, number, contributions, factor, floatsOf(slot, values));
  sum(stream, number, contributions, factor, sumOf(slot));
  write(stream, sumOf(slot), values.dtype, elementsOf(slot, values));
}

void DeviceSlotPlan::read(DeviceStream& stream, size_t number, ConstBytes message, int sender,
                          std::span<float> output) {
  const Slot& slot = blocks().slots()[number];
  const DeviceContribution one = messageOf(number, message, sender);
  DeviceDecode call;
  call.codec = slot.codec.get();
  call.deviceCodec = &functions(slot.codec);
  call.payload = one.payload;
  call.payloadBytes = one.payloadBytes;
  call.output = output;
  call.error = one.error;
  stream.decode(call);
}

void DeviceSlotPlan::readTo(DeviceStream& stream, size_t number, ConstBytes message, int sender,
                            const SlotValues& values) {
  const Slot& slot = blocks().slots()[number];
  if (slot.raw)
    return stream.copy(elementsOf(slot, values), message.subspan(kWireHeaderBytes, slot.payloadBytes));
  if (values.dtype == DType::kFloat32) return read(stream, number, message, sender, floatsOf(slot, values));
  read(stream, number, message, sender, sumOf(slot));
  write(stream, sumOf(slot), values.dtype, elementsOf(slot, values));
}

void DeviceSlotPlan::decode(DeviceStream& stream, std::span<const SlotValues> tensors, ConstBytes outward) {
  blocks().checkTensors(tensors);
  blocks().checkOutward(outward.size());
  for (size_t number = 0; number < blocks().slots().size(); ++number) {
    const Slot& slot = blocks().slots()[number];
    if (slot.owner == blocks().rank() || slot.count == 0) continue;
    readTo(stream, number, blocks().outwardMessage(slot, outward), slot.owner, tensors[slot.tensor]);
  }
}

void DeviceSlotPlan::averageWhole(DeviceStream& stream, std::span<const SlotValues> tensors, double factor,
                                  ConstBytes outward, ConstBytes inward) {
  blocks().checkTensors(tensors);
  blocks().checkOutward(outward.size());
  blocks().checkInward(inward.size());
  for (size_t number = 0; number < blocks().slots().size(); ++number) {
    const Slot& slot = blocks().slots()[number];
    if (slot.count == 0) continue;
    if (slot.raw) {
      averageRaw(stream, blocks(), slot, tensors[slot.tensor], factor, inward);
      continue;
    }
    std::vector<DeviceContribution> contributions;
    for (int rank = 0; rank < blocks().world(); ++rank) {
      contributions.push_back(messageOf(number,
                                        rank == blocks().rank() ? blocks().outwardMessage(slot, outward)
                                                                : blocks().contribution(slot, inward, rank),
                                        rank));
    }
    sumTo(stream, number, contributions, static_cast<float>(factor), tensors[slot.tensor]);
  }
}

void DeviceSlotPlan::check(DeviceStream& stream) {
  stream.copyToHost(reinterpret_cast<std::byte*>(shared_->told),
                    {reinterpret_cast<const std::byte*>(shared_->found), shared_->wordBytes});
  stream.whenDone([shared = shared_](const Failure& failure) {
    if (failure != nullptr) return shared->fail(*failure);
    shared->readWords();
  });
}

void DeviceSlotPlan::raise() const {
  const std::lock_guard lock(shared_->mutex);
  if (shared_->failure != nullptr) throw Error(*shared_->failure);
}

}  // namespace hipress
