// SPDX-License-Identifier: Apache-2.0
#include "core/casync/compute/summed_values.h"

#include <string>

#include "core/casync/compute/operation_values.h"
#include "core/codec/summed_encoding.h"
#include "core/codec/summed_step.h"
#include "core/element/convert.h"
#include "core/element/finite.h"

namespace hipress {

SummedValues::SummedValues(BufferPool& pool, StepValues& values, uint64_t seed, int rank)
    : pool_(pool),
      values_(values),
      seed_(seed),
      rank_(rank),
      count_(static_cast<size_t>(values.tensor->spec().count)),
      statisticsBytes_(codec().summed()->statisticsBytes(count_)) {}

std::span<std::byte> SummedValues::message() const {
  return {memory_.data() + statisticsBytes_, statisticsBytes_ + count_ + 1};
}

std::span<const float> SummedValues::input() const {
  if (!isFloat32()) return converted_.floats(count_);
  return {reinterpret_cast<const float*>(values_.input), count_};
}

EncodeContext SummedValues::context(Parallel& parallel) const {
  EncodeContext context;
  context.seed = seedOf(seed_, values_.tensor->position(), EncodeAs::kContribution);
  context.step = values_.step;
  context.tensor = values_.randomTensor;
  context.scale = static_cast<float>(values_.tensor->inputFactor());
  context.parallel = &parallel;
  return context;
}

void SummedValues::makeFirst(Parallel& parallel) {
  memory_ = pool_.take(2 * statisticsBytes_ + count_ + 1);
  if (!isFloat32()) converted_ = pool_.take(count_ * sizeof(float));
  if (!hasValues()) return;
  if (!isFloat32()) widen(values_.input, values_.tensor->spec().dtype, converted_.floats(count_));
  states_.emplace(values_.workerStates, 0);
  makeStatistics(codec(), input(), states_->states(), context(parallel), agreed());
}

void SummedValues::makeSecond(Parallel& parallel) {
  if (!hasValues()) return;
  try {
    makeLevels(codec(), agreed(), input(), states_->states(), context(parallel), message());
  } catch (const Error& error) {
    throw Error(error.kind(), "rank " + std::to_string(rank_) + ", tensor '" + values_.tensor->spec().name +
                                  "': " + error.what());
  }
}

void SummedValues::finish(Parallel& parallel) {
  const Tensor& tensor = *values_.tensor;
  const std::span<float> result = isFloat32()
                                      ? std::span<float>(reinterpret_cast<float*>(values_.output), count_)
                                      : converted_.floats(count_);
  bool isKept = finishSum(codec(), agreed(), message(), tensor.aggregateFactor(), result, &parallel);
  if (!isFloat32()) {
    narrow(result, tensor.spec().dtype, values_.output);
    isKept = isKept && allFinite(values_.output, tensor.spec().dtype, count_);
  }
  if (!isKept) values_.notFinite.store(true, std::memory_order_relaxed);
  if (isKept && states_) states_->stage();
}

}  // namespace hipress
