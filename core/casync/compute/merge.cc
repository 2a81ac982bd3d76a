// SPDX-License-Identifier: Apache-2.0
#include "core/casync/compute/merge.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/casync/compute/operation_values.h"
#include "core/element/nibbles.h"

namespace hipress {
namespace {

/// Elements that a merge adds at a time if a neighbour has some of them: few enough to stay in the cache
/// until the merge adds them, enough for one call of the kernel.
constexpr size_t kTile = 131072;

/// Whether all contributions are raw: the ranks of a host add up their gradients.
bool addsElementsOnly(const StepValues& operation, const Task& merge) {
  return merge.mergeAs == MergeAs::kPartialSum &&
         std::all_of(merge.from.begin(), merge.from.end(), [&](const Operand& operand) {
           return operand.kind == Operand::Kind::kInput ||
                  (operand.kind == Operand::Kind::kMessage &&
                   operation.tensor->graph().messages()[operand.index].plain);
         });
}

/// A tile of the elements to which a message refers, readable for the stream. `place`: its contribution.
std::span<const std::byte> tileOf(const TaskStep& step, MessageIndex message, size_t firstByte, size_t bytes,
                                  size_t place) {
  if (step.device == nullptr) {
    thread_local std::vector<std::vector<std::byte>> tiles;  // their memory serves every merge
    tiles.resize(std::max(tiles.size(), place + 1));
    tiles[place].resize(bytes);
    readReferred(step, message, firstByte, tiles[place]);
    return tiles[place];
  }
  const auto staged = step.work.held.add(step.staging.take(bytes)).first(bytes);
  readReferred(step, message, firstByte, staged);
  const auto tile = hold(step, bytes);
  step.stream.copyToDevice(tile.data(), staged);
  return tile;
}

/// Merges contributions, all of them raw. It works tile by tile if some are in a neighbour's memory:
/// a tile stays in the cache until the merge adds it, and a device copies one tile while the host reads the
/// next.
bool mergeElements(const TaskStep& step, std::span<float> sum) {
  // The memory of these lists serves every merge. `elements`: nullptr if they are in a neighbour's memory.
  thread_local std::vector<const std::byte*> elements;
  thread_local std::vector<MessageIndex> messages;
  thread_local std::vector<const void*> values;
  elements.clear();
  messages.clear();
  bool refers = false;
  for (const Operand& operand : step.task.from) {
    if (isAbsent(step.operation, operand)) continue;
    const bool ofInput = operand.kind == Operand::Kind::kInput;
    const bool referred = !ofInput && step.operation.messages[operand.index].isReference();
    const auto here = ofInput    ? inputSlice(step.operation, step.partition())
                      : referred ? std::span<const std::byte>()
                                 : payloadOf(step, operand.index);
    refers |= referred;
    elements.push_back(here.data());
    messages.push_back(operand.index);
  }
  if (elements.empty()) return false;
  const size_t elementBytes = elementSize(step.dtype());
  const size_t most = refers ? kTile : std::max<size_t>(sum.size(), 1);
  for (size_t begin = 0; begin < sum.size(); begin += most) {
    const std::span<float> part = sum.subspan(begin, std::min(most, sum.size() - begin));
    values.clear();
    for (size_t k = 0; k < elements.size(); ++k) {
      const size_t first = begin * elementBytes;
      values.push_back(elements[k] != nullptr
                           ? elements[k] + first
                           : tileOf(step, messages[k], first, part.size() * elementBytes, k).data());
    }
    step.stream.add(step.dtype(), values, static_cast<float>(step.tensor().inputFactor()),
                    DecodeMode::kAssign, part);
  }
  return true;
}

/// Merges into the output, in the tensor's own type.
bool mergeRaw(const TaskStep& step) {
  const Tensor& tensor = step.tensor();
  const auto output = outputSlice(step.operation, step.partition());
  // The memory of these lists serves every merge.
  thread_local std::vector<const void*> values;
  thread_local std::vector<const void*> packed;
  values.clear();
  packed.clear();
  for (const Operand& operand : step.task.from) {
    if (isAbsent(step.operation, operand)) continue;
    if (operand.kind == Operand::Kind::kInput) {
      values.push_back(inputSlice(step.operation, step.partition()).data());
    } else if (operand.kind == Operand::Kind::kMessage) {
      const bool isPacked = step.operation.messages[operand.index].isPacked();
      (isPacked ? packed : values).push_back(payloadOf(step, operand.index).data());
    } else {
      values.push_back(output.data());
    }
  }
  if (values.empty() && packed.empty()) return false;
  const size_t count = step.partition().range.count;
  if (!packed.empty()) {
    // A tensor with packed messages is a sum of int8 without factors, on the host (Tensor::packsOwn).
    sumNibbles(packed, values, count, output.data());
  } else if (count > 0) {
    step.stream.combine(tensor.combination(), step.dtype(), values, count, rawFactor(tensor, step.task),
                        output.data());
  }
  if (!watchesOutput(step.operation, step.task)) return true;
  takeWordsOf(step, 0);
  watch(step, output, 0);
  copyWordsOf(step, 0);
  return true;
}

/// Merges in float32. Contributions that are not encoded get the input's factor.
bool mergeValues(const TaskStep& step, std::span<float> sum) {
  if (addsElementsOnly(step.operation, step.task)) return mergeElements(step, sum);
  if (std::ranges::all_of(step.task.from,
                          [&](const Operand& operand) { return isAbsent(step.operation, operand); }))
    return false;
  const auto decoded = static_cast<size_t>(
      std::count_if(step.task.from.begin(), step.task.from.end(),
                    [&](const Operand& operand) { return isDecoded(step.operation, operand); }));
  uint32_t* error = takeWordsOf(step, decoded);
  DecodeMode mode = DecodeMode::kAssign;
  for (const Operand& operand : step.task.from) {
    if (isAbsent(step.operation, operand)) continue;
    if (isDecoded(step.operation, operand)) {
      decodeMessage(step, operand.index, sum, mode, error);
      if (error != nullptr) ++error;
    } else if (operand.kind == Operand::Kind::kSum) {
      const void* values[] = {floatsOf(step, operand).data()};
      step.stream.add(DType::kFloat32, values, 1.0f, mode, sum);
    } else {
      const bool ofInput = operand.kind == Operand::Kind::kInput;
      const void* values[] = {ofInput ? inputSlice(step.operation, step.partition()).data()
                                      : payloadOf(step, operand.index).data()};
      step.stream.add(step.dtype(), values, static_cast<float>(step.tensor().inputFactor()), mode, sum);
    }
    mode = DecodeMode::kAccumulate;
  }
  if (step.task.mergeAs == MergeAs::kOutput)
    writeOutput(step, sum, static_cast<float>(step.tensor().aggregateFactor()), decoded);
  copyWordsOf(step, decoded);
  return true;
}

}  // namespace

bool merge(const TaskStep& step) {
  const size_t count = step.partition().range.count;
  const bool toOutput = step.task.mergeAs == MergeAs::kOutput;
  SumState& sum = step.operation.sums[step.task.sum];
  if (step.partition().raw) {
    sum.absent = !mergeRaw(step);
  } else {
    const auto output = outputSlice(step.operation, step.partition());
    const bool inPlace = toOutput && step.dtype() == DType::kFloat32;
    if (!inPlace) sum.values = step.values.take(count * sizeof(float));
    const std::span<float> values(reinterpret_cast<float*>(inPlace ? output.data() : sum.values.data()),
                                  count);
    sum.absent = !mergeValues(step, values);
    if (!inPlace && (toOutput || sum.absent)) step.work.held.add(std::move(sum.values));
  }
  if (toOutput && sum.absent) step.operation.absent.store(true, std::memory_order_relaxed);
  return !sum.absent;
}

}  // namespace hipress
