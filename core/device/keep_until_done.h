// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <exception>
#include <memory>
#include <new>
#include <utility>

#include "core/device/device.h"

namespace hipress {

/// Keeps `owner` until the stream has done all work so far. If there is no memory to note this, `owner` stays
/// for ever: the device may still use its memory.
inline void keepUntilDone(DeviceStream& stream, std::shared_ptr<void> owner) noexcept {
  try {
    stream.whenDone([owner](const Failure&) {});
  } catch (const std::exception&) {
    alignas(std::shared_ptr<void>) std::byte neverDestroyed[sizeof(std::shared_ptr<void>)];
    ::new (static_cast<void*>(neverDestroyed)) std::shared_ptr<void>(std::move(owner));
  }
}

}  // namespace hipress
