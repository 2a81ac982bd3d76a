// SPDX-License-Identifier: Apache-2.0
//
// The errors of a codec on a device that computes with the host's codec.
#pragma once

#include <algorithm>
#include <mutex>
#include <string>
#include <vector>

#include "core/device/device.h"

namespace hipress {

class HostCodec final : public DeviceCodec {
 public:
  std::string refusal(uint32_t error) const override {
    const std::lock_guard lock(mutex_);
    return error <= reasons_.size() ? reasons_[error - 1] : "unknown";
  }
  /// The error number of a reason.
  uint32_t refuse(const std::string& reason) const {
    const std::lock_guard lock(mutex_);
    const auto known = std::ranges::find(reasons_, reason);
    if (known != reasons_.end()) return static_cast<uint32_t>(1 + (known - reasons_.begin()));
    reasons_.push_back(reason);
    return static_cast<uint32_t>(reasons_.size());
  }

 private:
  mutable std::mutex mutex_;
  mutable std::vector<std::string> reasons_;
};

}  // namespace hipress
