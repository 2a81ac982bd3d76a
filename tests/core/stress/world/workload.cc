// SPDX-License-Identifier: Apache-2.0
#include "tests/core/stress/world/workload.h"

#include <cstring>
#include <limits>
#include <string>
#include <utility>

#include "core/element/convert.h"
#include "core/element/reduce.h"
#include "tests/core/stress/world/check.h"

namespace hipress::stress {
namespace {

uint64_t mixed(uint64_t seed, uint64_t a, uint64_t b, uint64_t c) {
  uint64_t hash = seed;
  for (const uint64_t each : {a, b, c}) {
    hash = (hash ^ each) * 0x9E3779B97F4A7C15u;
    hash ^= hash >> 29;
  }
  return hash;
}

TensorSpec randomSpec(Random& random, size_t index, int worldSize) {
  TensorSpec spec;
  spec.name = "tensor " + std::to_string(index);
  // Sizes are empty, tiny, or around a partition's alignment; some exceed the inline limit and are shared.
  spec.count = random.oneIn(6) ? random.among<size_t>({0, 1, 7, 1023, 1024, 1025})
                               : random.below(random.oneIn(4) ? 40000 : 4000);
  spec.shape = "[" + std::to_string(spec.count) + "]";
  spec.dtype = static_cast<DType>(random.below(kDTypeCount));
  AllreduceOptions options;
  options.reduction = spec.dtype == DType::kBool || random.oneIn(3) ? Reduction::kSum : Reduction::kAverage;
  if (isFloatingPoint(spec.dtype)) {
    options.codec = random.among({"none", "fp16", "int8", "onebit", "onebit(error_feedback=false)"});
    options.topology = random.among({"ps", "ps", "ring", "butterfly", "allgather", "hierarchical"});
    if (spec.dtype == DType::kFloat32 && spec.count > 0 && random.oneIn(5)) {
      options.codec = "powersgd(rank=2, min_ratio=0.001)";
      spec.shape = matrixShape(spec.count);
    }
    if (random.oneIn(4)) options.prescale = 0.5;
    if (random.oneIn(4)) options.postscale = 3.0;
  }
  options.partitions = static_cast<int>(random.below(7));
  if (random.oneIn(8)) {
    spec.options =
        BroadcastOptions{static_cast<int>(random.below(static_cast<size_t>(worldSize))), options.partitions};
  } else {
    spec.options = std::move(options);
  }
  return spec;
}

void fill(Random& random, const TensorSpec& spec, std::span<std::byte> bytes) {
  if (!isFloatingPoint(spec.dtype)) {
    // Values are small: a sum that wraps could hide that a rank was added twice.
    const size_t size = elementSize(spec.dtype);
    for (size_t offset = 0; offset < bytes.size(); offset += size) {
      std::memset(&bytes[offset], 0, size);
      bytes[offset] = static_cast<std::byte>(random.below(spec.dtype == DType::kBool ? 2 : 20));
    }
    return;
  }
  std::vector<float> values(spec.count);
  // Values have few bits, so no order of additions rounds.
  for (auto& value : values) value = static_cast<float>(static_cast<int>(random.below(2049)) - 1024) / 1024;
  // A NaN checks that residuals stay finite.
  const bool compressed = spec.allreduce() != nullptr && spec.allreduce()->codec != "none";
  if (compressed && !values.empty() && random.oneIn(12)) {
    values[random.below(values.size())] = std::numeric_limits<float>::quiet_NaN();
  }
  if (spec.dtype == DType::kFloat32) {
    if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  } else {
    narrow(values, spec.dtype, bytes.data());
  }
}

}  // namespace

std::string matrixShape(size_t count) {
  size_t rows = 1;
  for (size_t divisor = 1; divisor * divisor <= count; ++divisor) {
    if (count % divisor == 0) rows = divisor;
  }
  return "[" + std::to_string(rows) + ", " + std::to_string(count / rows) + "]";
}

Workload randomWorkload(Random& random, int worldSize, int tensors) {
  Workload workload;
  workload.seed = random.seed();
  workload.worldSize = worldSize;
  workload.steps = static_cast<int>(2 + random.below(3));
  workload.bySteps = random.oneIn(2);
  for (int index = 0; index < tensors; ++index) {
    workload.specs.push_back(randomSpec(random, static_cast<size_t>(index), worldSize));
  }
  return workload;
}

std::shared_ptr<StepMemory> memoryFor(const Workload& workload, size_t tensor, int step, int rank) {
  const TensorSpec& spec = workload.specs[tensor];
  const bool broadcast = spec.collective() == Collective::kBroadcast;
  Random random(mixed(workload.seed, tensor, static_cast<uint64_t>(step), static_cast<uint64_t>(rank)));
  auto memory = std::make_shared<StepMemory>();
  memory->hasInput = broadcast || !random.oneIn(5);
  memory->inPlace = broadcast || random.oneIn(2);
  memory->input.resize(spec.count * elementSize(spec.dtype));
  fill(random, spec, memory->input);
  if (!memory->inPlace) memory->output.resize(memory->input.size(), std::byte{0x5a});
  return memory;
}

Submission submissionOf(const std::shared_ptr<StepMemory>& memory, Releases& releases) {
  Submission submission;
  submission.output = memory->inPlace ? memory->input.data() : memory->output.data();
  // An empty tensor has no address, and a null address would mean that this rank has no values.
  static const std::byte nothing{};
  const auto* values = memory->input.empty() ? &nothing : memory->input.data();
  if (memory->hasInput) submission.input = values;
  ++releases.given;
  submission.keepAlive = std::shared_ptr<void>(
      &releases, [memory](void* counter) { ++static_cast<Releases*>(counter)->returned; });
  return submission;
}

bool expectedOf(const Workload& workload, size_t tensor, int step, std::vector<std::byte>* expected) {
  const TensorSpec& spec = workload.specs[tensor];
  if (const auto* options = std::get_if<BroadcastOptions>(&spec.options)) {
    *expected = memoryFor(workload, tensor, step, options->root)->input;
    return true;
  }
  std::vector<std::vector<std::byte>> present;
  for (int rank = 0; rank < workload.worldSize; ++rank) {
    const auto memory = memoryFor(workload, tensor, step, rank);
    if (memory->hasInput) present.push_back(std::move(memory->input));
  }
  if (present.empty()) return false;
  const double divisor = spec.reduce()->reduction == Reduction::kAverage ? workload.worldSize : 1;
  const double factor = spec.reduce()->prescale * (spec.reduce()->postscale / divisor);
  expected->resize(present.front().size());
  if (spec.dtype == DType::kFloat32) {  // written out, so that the test does not use the engine's own merge
    for (size_t offset = 0; offset < expected->size(); offset += sizeof(float)) {
      float sum = 0;
      for (size_t index = 0; index < present.size(); ++index) {
        float value = 0;
        std::memcpy(&value, &present[index][offset], sizeof value);
        sum = index == 0 ? value : sum + value;
      }
      sum *= static_cast<float>(factor);
      std::memcpy(&(*expected)[offset], &sum, sizeof sum);
    }
    return true;
  }
  std::vector<const void*> pointers;
  for (const auto& each : present) pointers.push_back(each.data());
  reduceInOrder(spec.dtype, pointers, spec.count, factor, expected->data());
  return true;
}

}  // namespace hipress::stress
