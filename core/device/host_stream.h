// SPDX-License-Identifier: Apache-2.0
//
// The host's stream does each piece of work in the call itself, on the caller's thread. It throws errors,
// unless the call has a word for them.
#pragma once

#include <algorithm>

#include "core/device/device.h"

namespace hipress {

class HostStream final : public DeviceStream {
 public:
  /// Large encodes and decodes share their work out over the threads of `parallel`; nullptr: the caller's
  /// thread works alone.
  explicit HostStream(Parallel* parallel = nullptr) : parallel_(parallel) {}

  void waitFor(void*) override {}
  void fillZeros(std::span<std::byte> bytes) override { std::ranges::fill(bytes, std::byte{0}); }
  void copy(std::byte* to, std::span<const std::byte> from) override;
  void copyToDevice(std::byte* to, std::span<const std::byte> staging) override { copy(to, staging); }
  void copyToHost(std::byte* staging, std::span<const std::byte> from) override { copy(staging, from); }
  void encode(const DeviceEncode& call) override;
  void decode(const DeviceDecode& call) override;
  void combine(Combination combination, DType dtype, std::span<const void* const> contributions, size_t count,
               double factor, void* output) override;
  void add(DType dtype, std::span<const void* const> contributions, float factor, DecodeMode mode,
           std::span<float> sum) override;
  void narrow(std::span<const float> values, DType dtype, void* output) override;
  void flagNotFinite(DType dtype, const void* values, size_t count, uint32_t* flag) override;
  void copyUnlessZero(const uint32_t* word, std::span<const float> values, float* to) override;
  void rescale(std::span<const std::span<float>> values, const float* now, const float* before) override;
  void makeStatistics(const DeviceSummed& call) override;
  void makeLevels(const DeviceSummed& call) override;
  void finishSum(const DeviceSummed& call) override;
  void findNonzero(std::span<const SlotSpan> values) override;
  void findNotFinite(DType dtype, std::span<const SlotSpan> values) override;
  void fillUnlessZero(std::span<const SlotFill> averages, uint32_t* verdict) override;
  void seal(std::span<const SlotSeal> messages, uint32_t* verdict) override;
  void check(std::span<const SlotCheck> messages, uint32_t* verdict) override;
  void restore(std::span<const SlotRestore> states, const uint32_t* verdict) override;
  void whenDone(EndCallback callback) override { callback(nullptr); }
  bool worksAtOnce() const override { return true; }
  size_t scratchBytes() const override { return 0; }  // codecs count their own (codec/scratch_bytes.h)
  bool close(Milliseconds) override { return true; }

 private:
  Parallel* const parallel_;
};

}  // namespace hipress
