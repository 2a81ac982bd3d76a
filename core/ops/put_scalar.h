// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>

#include "core/ops/host_device.h"

namespace hipress::ops {

/// Writes a scalar of a message at any address.
template <typename T>
HIPRESS_HOST_DEVICE inline void putScalar(uint8_t* at, T value) {
  std::memcpy(at, &value, sizeof(T));
}

}  // namespace hipress::ops
