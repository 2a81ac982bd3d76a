// SPDX-License-Identifier: Apache-2.0
//
// The merge: contributions of several ranks become one sum, in the order that the graph gives.
#include <algorithm>
#include <string>
#include <vector>

#include "core/casync/executor.h"
#include "core/casync/referred_message.h"
#include "core/element/convert.h"
#include "core/element/reduce.h"

namespace hipress {
namespace {

/// Elements that are added at a time: few enough to stay in the cache, enough to be worth asking the kernel
/// for.
constexpr size_t kTile = 131072;

struct TileMemory {
  std::vector<std::byte> read;
  std::vector<float> floats;
};

/// Whether nothing is to be decoded: ranks of a host add up their gradients.
bool addsElementsOnly(const Operation& operation, const Task& merge) {
  return merge.mergeAs == MergeAs::kPartialSum &&
         std::all_of(merge.from.begin(), merge.from.end(), [&](const Operand& operand) {
           return operand.kind == Operand::Kind::kInput ||
                  (operand.kind == Operand::Kind::kMessage &&
                   operation.tensor->graph.messages()[operand.index].plain);
         });
}

void scaleBy(float factor, std::span<float> values) {
  if (factor == 1.0f) return;
  for (float& value : values) value *= factor;
}

}  // namespace

void Executor::merge(Operation& operation, const Task& task) {
  const auto& partition = partitionOf(operation, task);
  const Tensor& tensor = *operation.tensor;
  const size_t count = partition.range.count;
  const bool toOutput = task.mergeAs == MergeAs::kOutput;
  SumState& sum = operation.sums[task.sum];
  if (partition.raw) {
    sum.absent = !mergeRaw(operation, task);
  } else if (toOutput && tensor.spec.dtype == DType::kFloat32) {
    const std::span<float> output(reinterpret_cast<float*>(outputSlice(operation, partition).data()), count);
    sum.absent = !mergeEncoded(operation, task, output);
    if (!sum.absent) scaleBy(static_cast<float>(tensor.aggregateFactor), output);
  } else {
    sum.values = pool_.take(count * sizeof(float));
    sum.absent = !mergeEncoded(operation, task, sum.values.floats(count));
    if (toOutput && !sum.absent) {
      scaleBy(static_cast<float>(tensor.aggregateFactor), sum.values.floats(count));
      narrow(sum.values.floats(count), tensor.spec.dtype, outputSlice(operation, partition).data());
    }
    if (toOutput || sum.absent) sum.values.release();
  }
  if (toOutput && sum.absent) operation.absent.store(true, std::memory_order_relaxed);
}

/// In the output, in the tensor's own type; false if nobody had values.
bool Executor::mergeRaw(Operation& operation, const Task& task) {
  const auto& partition = partitionOf(operation, task);
  const Tensor& tensor = *operation.tensor;
  thread_local std::vector<const void*> values;  // its memory serves every merge
  values.clear();
  const auto payloadOf = [&](MessageIndex message) {
    fetchReferred(operation, task, message, pool_);
    return operation.messages[message].payload;
  };
  collectRaw(operation, task, payloadOf, values);
  if (values.empty()) return false;
  combineInOrder(tensor.combination, tensor.spec.dtype, values, partition.range.count,
                 rawFactor(tensor, task), outputSlice(operation, partition).data());
  return true;
}

/// In float32, every input with its factor; false if nobody had values.
bool Executor::mergeEncoded(Operation& operation, const Task& task, std::span<float> sum) {
  if (addsElementsOnly(operation, task)) return mergeElements(operation, task, sum);
  bool first = true;
  for (const Operand& operand : task.from) {
    if (isAbsent(operation, operand)) continue;
    try {
      add(operation, task, operand, sum, first);
    } catch (const Error& error) {
      const int sender = operand.kind == Operand::Kind::kMessage ? senderOf(operation, operand.index) : -1;
      throw inContext(error, operation, task, sender);
    }
    first = false;
  }
  return !first;
}

/// The same, tile by tile: what is read from another process does not leave the cache before it is added.
bool Executor::mergeElements(const Operation& operation, const Task& task, std::span<float> sum) {
  const auto isHere = [&](const Operand& operand) { return !isAbsent(operation, operand); };
  if (std::none_of(task.from.begin(), task.from.end(), isHere)) return false;
  for (size_t begin = 0; begin < sum.size(); begin += kTile)
    mergeTile(operation, task, begin, sum.subspan(begin, std::min(kTile, sum.size() - begin)));
  return true;
}

void Executor::mergeTile(const Operation& operation, const Task& task, size_t begin, std::span<float> sum) {
  const Tensor& tensor = *operation.tensor;
  const size_t elementBytes = elementSize(tensor.spec.dtype);
  const size_t bytes = sum.size() * elementBytes;
  const auto factor = static_cast<float>(tensor.inputFactor);
  // Their memory serves every merge. The second: of each rank, what is not in this process, or not float32.
  thread_local std::vector<const void*> values;
  thread_local std::vector<TileMemory> tiles;
  values.clear();
  tiles.resize(std::max(tiles.size(), task.from.size()));
  for (const Operand& operand : task.from) {
    if (isAbsent(operation, operand)) continue;
    TileMemory& tile = tiles[values.size()];
    std::span<const std::byte> elements;
    if (operand.kind == Operand::Kind::kInput) {
      elements = inputSlice(operation, partitionOf(operation, task)).subspan(begin * elementBytes, bytes);
    } else if (const MessageState& message = operation.messages[operand.index]; message.isReference()) {
      tile.read.resize(bytes);
      readReferred(operation, task, operand.index, begin * elementBytes, tile.read);
      elements = tile.read;
    } else {
      elements = message.payload.subspan(begin * elementBytes, bytes);
    }
    values.push_back(elements.data());
    if (tensor.spec.dtype == DType::kFloat32 && factor == 1.0f) continue;
    tile.floats.resize(sum.size());
    widen(elements.data(), tensor.spec.dtype, tile.floats);
    scaleBy(factor, tile.floats);
    values.back() = tile.floats.data();
  }
  reduceInOrder(DType::kFloat32, values, sum.size(), 1.0, sum.data());
}

void Executor::add(Operation& operation, const Task& task, const Operand& operand, std::span<float> sum,
                   bool first) {
  const auto& partition = partitionOf(operation, task);
  if (operand.kind == Operand::Kind::kInput) {
    return addElements(operation, inputSlice(operation, partition), sum, first);
  }
  if (operand.kind == Operand::Kind::kSum) {
    auto& other = operation.sums[operand.index].values;
    const auto values = other.floats(sum.size());
    for (size_t i = 0; i < sum.size(); ++i) sum[i] = first ? values[i] : sum[i] + values[i];
    return other.release();
  }
  const MessageState& message = operation.messages[operand.index];
  verifyChecksum(message.header, message.payload);
  operation.tensor->codec->decode(message.payload, sum, first ? DecodeMode::kAssign : DecodeMode::kAccumulate,
                                  &parallel_);
}

void Executor::addElements(const Operation& operation, std::span<const std::byte> elements,
                           std::span<float> sum, bool first) {
  BufferPool::Buffer scratch;
  const auto values = asFloats(elements, operation.tensor->spec.dtype, sum.size(), pool_, scratch);
  const auto factor = static_cast<float>(operation.tensor->inputFactor);
  if (first) {
    for (size_t i = 0; i < sum.size(); ++i) sum[i] = factor * values[i];
  } else {
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += factor * values[i];
  }
}

}  // namespace hipress
