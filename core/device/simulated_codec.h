// SPDX-License-Identifier: Apache-2.0
//
// A processor's codec, as if it were a device's.
#pragma once

#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "core/device/device.h"

namespace hipress {

class SimulatedCodec final : public DeviceCodec {
 public:
  explicit SimulatedCodec(CodecPointer codec) : codec_(std::move(codec)) {}

  const Codec& codec() const { return *codec_; }

  std::string refusal(uint32_t error) const override {
    const std::lock_guard lock(mutex_);
    return error <= reasons_.size() ? reasons_[error - 1] : "unknown";
  }
  /// The number for it.
  uint32_t refuse(const std::string& reason) const {
    const std::lock_guard lock(mutex_);
    reasons_.push_back(reason);
    return static_cast<uint32_t>(reasons_.size());
  }

 private:
  const CodecPointer codec_;
  mutable std::mutex mutex_;
  mutable std::vector<std::string> reasons_;
};

}  // namespace hipress
