// SPDX-License-Identifier: Apache-2.0
//
// The host as a device. Its streams do each piece of work in the call itself, on the caller's thread.
#pragma once

#include <memory>
#include <string>

#include "core/device/host_codec.h"
#include "core/device/host_stream.h"

namespace hipress {

class HostDevice final : public Device {
 public:
  std::string name() const override { return "cpu"; }
  std::shared_ptr<Memory> memory() override { return hostMemory; }
  std::shared_ptr<Memory> staging() override { return hostMemory; }
  std::unique_ptr<DeviceStream> makeStream() override { return std::make_unique<HostStream>(); }
  std::unique_ptr<DeviceStream> makeStreamOn(void* /*stream*/) override { return makeStream(); }
  std::shared_ptr<const DeviceCodec> codec(const CodecPointer&) override {
    return std::make_shared<HostCodec>();
  }
  std::shared_ptr<void> eventOn(void* /*stream*/) override { return nullptr; }
};

}  // namespace hipress
