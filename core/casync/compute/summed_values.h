// SPDX-License-Identifier: Apache-2.0
//
// One step of a tensor whose codec's levels are summed without decoding (codec/summed_step.h). The first
// linked tensor has the statistics, the second one the levels and one element more: how many ranks could not
// encode.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "core/base/buffer_pool.h"
#include "core/casync/compute/linked_values.h"
#include "core/casync/compute/step_values.h"
#include "core/codec/state/state_store.h"

namespace hipress {

class SummedValues final : public LinkedValues {
 public:
  /// `values`: of the tensor's operation, which outlives this. `seed`: of all ranks' random numbers.
  SummedValues(BufferPool& pool, StepValues& values, uint64_t seed, int rank);

  bool hasValues() const override { return values_.input != nullptr; }
  void makeFirst(Parallel& parallel) override;
  void* first() const override { return memory_.data(); }
  void makeSecond(Parallel& parallel) override;
  void* second() const override { return message().data() + statisticsBytes_; }
  void finish(Parallel& parallel) override;

 private:
  const Codec& codec() const { return *values_.tensor->codec(); }
  bool isFloat32() const { return values_.tensor->spec().dtype == DType::kFloat32; }
  std::span<std::byte> agreed() const { return memory_.first(statisticsBytes_); }
  /// The statistics, the levels, and the number of failures.
  std::span<std::byte> message() const;
  std::span<const float> input() const;
  EncodeContext context(Parallel& parallel) const;

  BufferPool& pool_;
  StepValues& values_;
  const uint64_t seed_;
  const int rank_;
  const size_t count_;
  const size_t statisticsBytes_;
  BufferPool::Buffer memory_;     // the agreed statistics, and the message
  BufferPool::Buffer converted_;  // the input, and later the result, of a tensor that is not float32
  std::optional<StateLease> states_;
};

}  // namespace hipress
