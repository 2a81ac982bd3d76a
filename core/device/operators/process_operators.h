// SPDX-License-Identifier: Apache-2.0
//
// The devices of this process for operators that are written in C++. Python makes the devices, because their
// compiler of kernels is Python's.
#pragma once

#include <functional>
#include <memory>

#include "core/device/operators/device_operators.h"

namespace hipress {

/// Makes the device with this number. Any thread calls it, without a lock.
using DeviceMaker = std::function<std::shared_ptr<Device>(int ordinal)>;

/// Replaces the maker, and forgets the devices of the one before.
void setDeviceMaker(DeviceMaker maker);

/// The operators on a device, made at the first use. Throws NotInitialized without a maker, and its errors.
std::shared_ptr<DeviceOperators> processOperators(int ordinal);

}  // namespace hipress
