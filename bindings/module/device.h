// SPDX-License-Identifier: Apache-2.0
//
// Values in a device's memory, for tests.
#pragma once

#include <pybind11/numpy.h>

#include <memory>

#include "core/device/device.h"

namespace hipress::bindings {

class DeviceArray {
 public:
  DeviceArray(std::shared_ptr<Device> device, size_t bytes)
      : device_(std::move(device)), bytes_(bytes), data_(device_->memory()->allocate(bytes)) {}
  ~DeviceArray() { device_->memory()->free(data_); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  size_t bytes() const { return bytes_; }
  void* data() const { return data_; }

  void write(const pybind11::array& values) {
    device_->memory()->write(data_, values.data(), static_cast<size_t>(values.nbytes()));
  }
  void read(pybind11::array& values) const {
    device_->memory()->read(data_, values.mutable_data(), static_cast<size_t>(values.nbytes()));
  }

 private:
  const std::shared_ptr<Device> device_;
  const size_t bytes_;
  void* const data_;
};

}  // namespace hipress::bindings
