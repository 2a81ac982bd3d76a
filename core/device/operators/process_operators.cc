// SPDX-License-Identifier: Apache-2.0
#include "core/device/operators/process_operators.h"

#include <map>
#include <mutex>
#include <utility>

#include "core/base/error.h"

namespace hipress {
namespace {

struct Devices {
  std::mutex mutex;
  DeviceMaker maker;
  std::map<int, std::shared_ptr<DeviceOperators>> made;
};

/// Never destroyed: the driver may end before this library, and the maker is Python's.
Devices& devices() {
  static auto* const all = new Devices;
  return *all;
}

}  // namespace

void setDeviceMaker(DeviceMaker maker) {
  Devices& all = devices();
  std::map<int, std::shared_ptr<DeviceOperators>> before;
  const std::lock_guard lock(all.mutex);
  std::swap(all.maker, maker);
  std::swap(all.made, before);
}

std::shared_ptr<DeviceOperators> processOperators(int ordinal) {
  Devices& all = devices();
  DeviceMaker maker;
  {
    const std::lock_guard lock(all.mutex);
    if (const auto known = all.made.find(ordinal); known != all.made.end()) return known->second;
    maker = all.maker;
  }
  if (maker == nullptr) {
    throw Error(
        ErrorKind::kNotInitialized,
        "no part of HiPress has said how this process makes devices: import hipress.tensorflow first");
  }
  // Without the lock, because the maker is Python's.
  auto made = std::make_shared<DeviceOperators>(maker(ordinal));
  const std::lock_guard lock(all.mutex);
  return all.made.emplace(ordinal, std::move(made)).first->second;
}

}  // namespace hipress
