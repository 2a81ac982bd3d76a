// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/slots/slot_executor.h"
#include "core/slots/slot_place.h"
#include "core/slots/slot_words.h"

namespace hipress {

/// What work on a stream uses: the program, its codecs, and the errors.
struct SlotExecutor::Shared {
  Shared(std::shared_ptr<const SlotProgram> runs, std::shared_ptr<Device> owner);

  void fail(const Error& error) {
    const std::lock_guard lock(mutex);
    if (failure == nullptr) failure = failureOf(error);
  }
  /// Fails with the first error that the device has told.
  void readWords() {
    try {
      words->raise(program->slots(), functions);
    } catch (const Error& error) {
      fail(error);
    }
  }
  const DeviceCodec& codec(const CodecPointer& codec) const { return *functions.at(codec.get()); }

  const std::shared_ptr<const SlotProgram> program;
  const std::shared_ptr<Device> device;
  SlotWords::Functions functions;
  bool keepsStates = false;
  std::unique_ptr<const SlotWords> words;
  mutable std::mutex mutex;
  Failure failure;
};

/// One run: the tasks in their order, and around them what the device does with many messages at once.
class SlotExecutor::Run {
 public:
  Run(std::shared_ptr<Shared> shared, SlotQueue& queue, const SlotCall& call)
      : shared_(std::move(shared)), queue_(queue), stream_(queue.stream()), call_(call) {}

  /// Finds the slots of which this rank has no gradient.
  void findZeros();
  /// Checks the messages that have come.
  void receive(std::span<const SlotTask> arrivals);
  /// The tasks of a slot are a line of work, and need nothing of other slots.
  void work(std::span<const SlotTask> tasks);
  /// Writes the headers of messages.
  void seal();
  void copy(std::span<const SlotCopy> copies);
  /// Writes zeros or NaN to averages that are absent or refused, and looks whether the others are finite.
  void conclude();

 private:
  SlotPlace place(size_t slot) const { return {*shared_->program, *shared_->words, slot, queue_, call_}; }

  void encode(const SlotPlace& at, const Task& task);
  void encodeValues(const SlotPlace& at, const Task& task);
  void merge(const SlotPlace& at, const Task& task);
  void mergeRaw(const SlotPlace& at, const Task& task);
  /// Adds the values of a host's ranks, which are not encoded. Returns false for other merges.
  bool mergePlain(const SlotPlace& at, const Task& task);
  void sum(const SlotPlace& at, std::span<const DeviceContribution> contributions, float factor,
           std::span<float> output);
  void sumToTensor(const SlotPlace& at, std::span<const DeviceContribution> contributions);
  void decode(const SlotPlace& at, const Task& task);
  void decodeValues(const SlotPlace& at, MessageIndex message);
  void work(const SlotTask& task);
  /// Looks, before its header says it, whether this rank's average is finite.
  void look(const SlotPlace& at);
  /// The values to where the tensor is, in its type.
  void write(const SlotPlace& at, std::span<const float> values);

  const std::shared_ptr<Shared> shared_;
  SlotQueue& queue_;
  DeviceStream& stream_;
  const SlotCall& call_;
  std::vector<SlotSeal> sealed_;
  std::vector<SlotFill> filled_;
  std::map<DType, std::vector<SlotSpan>>
      told_;  ///< Averages of this rank of which headers tell whether they are finite.
  std::map<DType, std::vector<SlotSpan>> looked_;
};

}  // namespace hipress
