// SPDX-License-Identifier: Apache-2.0
#include "core/slots/summed_tensor.h"

#include <bit>
#include <limits>
#include <mutex>
#include <utility>

#include "core/base/error.h"
#include "core/codec/summed_encoding.h"

namespace hipress {

/// What work on a stream uses.
struct SummedTensor::Shared {
  Shared(std::string title, CodecPointer used, size_t elements, uint32_t tensor,
         std::shared_ptr<Device> owner);
  ~Shared();
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;

  void fail(const Error& error) {
    const std::lock_guard lock(mutex);
    if (failure == nullptr) failure = failureOf(error);
  }
  /// Fails with the error among the words in staging.
  void readWords();

  const std::string name;
  const CodecPointer codec;
  const size_t count;
  const uint32_t number;
  const std::shared_ptr<Device> device;
  const std::shared_ptr<const DeviceCodec> functions;
  const size_t statisticsBytes;
  std::byte* message = nullptr;
  float* floats = nullptr;  ///< A tensor of another type in float32.
  uint32_t* words = nullptr;
  uint32_t* told = nullptr;  ///< The words, in staging.
  // Of the step that is under way.
  std::shared_ptr<SlotStates> states;
  std::string key;
  DeviceSummed call;
  mutable std::mutex mutex;
  Failure failure;
};

SummedTensor::Shared::Shared(std::string title, CodecPointer used, size_t elements, uint32_t tensor,
                             std::shared_ptr<Device> owner)
    : name(std::move(title)),
      codec(std::move(used)),
      count(elements),
      number(tensor),
      device(std::move(owner)),
      functions(device->codec(codec)),
      statisticsBytes(codec->summed() == nullptr ? 0 : codec->summed()->statisticsBytes(count)) {
  if (statisticsBytes == 0)
    throw unsupported("codec " + codec->signature() + " encodes values that ranks cannot add");
  Memory& memory = *device->memory();
  message = static_cast<std::byte*>(memory.allocate(statisticsBytes + count + 1));
  words = static_cast<uint32_t*>(memory.allocateZeros(kSummedWords * sizeof(uint32_t)));
  told = static_cast<uint32_t*>(device->staging()->allocate(kSummedWords * sizeof(uint32_t)));
}

SummedTensor::Shared::~Shared() {
  Memory& memory = *device->memory();
  memory.free(message);
  if (floats != nullptr) memory.free(floats);
  memory.free(words);
  device->staging()->free(told);
}

void SummedTensor::Shared::readWords() {
  const std::string where = "tensor '" + name + "': ";
  for (const SummedWord word : {kStatisticsError, kLevelsError}) {
    if (told[word] != 0) return fail(invalidArgument(where + functions->refusal(told[word])));
  }
  if (told[kTooGreat] != 0) {
    return fail(invalidArgument(where + "codec " + codec->signature() + " made levels greater than " +
                                std::to_string(codec->summed()->mostLevel()) +
                                ", and its add() says that there are none; limit the levels that its encode "
                                "makes"));
  }
  if (told[kSumError] != 0) fail(corruptPayload(where + functions->refusal(told[kSumError])));
}

SummedTensor::SummedTensor(std::string name, CodecPointer codec, size_t count, uint32_t number,
                           std::shared_ptr<Device> device)
    : shared_(std::make_shared<Shared>(std::move(name), std::move(codec), count, number, std::move(device))) {
}

void SummedTensor::checkRoom(std::span<const float> statistics, Bytes levels) const {
  if (statistics.size_bytes() != shared_->statisticsBytes || levels.size() != shared_->count + 1)
    throw invalidArgument("the statistics or levels of '" + shared_->name + "' have another size");
}

void SummedTensor::makeStatistics(DeviceStream& stream, const SlotValues& values, SlotStateTable& table,
                                  const std::string& key, SlotStep step, std::span<float> statistics,
                                  float* gradient) {
  Shared& own = *shared_;
  if (values.count != own.count || statistics.size_bytes() != own.statisticsBytes)
    throw invalidArgument("tensor '" + own.name + "' or its statistics have another size");
  own.key = key;
  own.states = table.at(key);
  own.states->keep(own.codec->states(), own.count);
  own.call = {};
  own.call.codec = own.codec.get();
  own.call.deviceCodec = own.functions.get();
  own.call.states = own.states->lists();
  own.call.context.seed = step.seed;
  own.call.context.step = step.step;
  own.call.context.tensor = own.number;
  own.call.context.scale = own.codec->gradientFactor();
  own.call.message = {own.message, own.statisticsBytes + own.count};
  own.call.words = own.words;
  own.call.input = {reinterpret_cast<const float*>(values.data), own.count};
  if (values.dtype != DType::kFloat32) {
    if (own.floats == nullptr)
      own.floats = static_cast<float*>(own.device->memory()->allocate(own.count * sizeof(float)));
    const std::span<float> floats(own.floats, own.count);
    const void* const elements = values.data;
    stream.add(values.dtype, std::span(&elements, 1), 1.0F, DecodeMode::kAssign, floats);
    own.call.input = floats;
  }
  own.call.statistics = statistics;
  stream.makeStatistics(own.call);
  const float found = own.codec->summed()->reduction() == StatisticsReduction::kMin ? -1.0F : 1.0F;
  const SlotSpan asked{values.data, values.count, reinterpret_cast<uint32_t*>(gradient),
                       static_cast<uint32_t>(elementSize(values.dtype)), std::bit_cast<uint32_t>(found)};
  stream.findNonzero(std::span(&asked, 1));
}

void SummedTensor::makeLevels(DeviceStream& stream, std::span<float> agreed, Bytes levels) {
  checkRoom(agreed, levels);
  shared_->call.statistics = agreed;
  shared_->call.levels = levels;
  stream.makeLevels(shared_->call);
}

void SummedTensor::finish(DeviceStream& stream, const SlotValues& values, double factor,
                          std::span<float> agreed, const float* gradient, Bytes levels,
                          SlotChanges& changed) {
  checkRoom(agreed, levels);
  Shared& own = *shared_;
  own.call.gradient = gradient;
  own.call.verdict = changed.verdict();
  own.call.statistics = agreed;
  own.call.levels = levels;
  own.call.factor = factor;
  own.call.refused = changed.nanIfRefused() ? std::numeric_limits<float>::quiet_NaN() : 0.0F;
  const bool inPlace = values.dtype == DType::kFloat32;
  own.call.result = {inPlace ? reinterpret_cast<float*>(values.data) : own.floats, own.count};
  stream.finishSum(own.call);
  if (!inPlace) stream.narrow(own.call.result, values.dtype, values.data);
  if (narrows(values.dtype)) changed.look(stream, values);
  if (!own.states->states().empty()) {
    own.states->exchange();
    changed.add(own.key, own.states, own.words + kKeepsOld, shared_);
  }
  stream.copyToHost(reinterpret_cast<std::byte*>(own.told),
                    std::as_bytes(std::span<const uint32_t>(own.words, kSummedWords)));
  stream.whenDone([shared = shared_, verdict = changed.memory()](const Failure& failure) {
    if (failure != nullptr) return shared->fail(*failure);
    shared->readWords();
  });
}

void SummedTensor::raise() const {
  const std::lock_guard lock(shared_->mutex);
  if (shared_->failure != nullptr) throw Error(*shared_->failure);
}

}  // namespace hipress
