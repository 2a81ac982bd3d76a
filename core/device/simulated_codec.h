// SPDX-License-Identifier: Apache-2.0
//
// The errors of a codec on a simulated device. A stream computes with the host's codec.
#pragma once

#include <mutex>
#include <string>
#include <vector>

#include "core/device/device.h"

namespace hipress {

class SimulatedCodec final : public DeviceCodec {
 public:
  std::string refusal(uint32_t error) const override {
    const std::lock_guard lock(mutex_);
    return error <= reasons_.size() ? reasons_[error - 1] : "unknown";
  }
  /// The error number of a reason.
  uint32_t refuse(const std::string& reason) const {
    const std::lock_guard lock(mutex_);
    reasons_.push_back(reason);
    return static_cast<uint32_t>(reasons_.size());
  }

 private:
  mutable std::mutex mutex_;
  mutable std::vector<std::string> reasons_;
};

}  // namespace hipress
