// SPDX-License-Identifier: Apache-2.0
//
// What a GPU is to the engine: memory that the host may not touch, and streams, on which work is put without
// waiting for it. Work of one stream is done in the order in which it was put there, so that a chain of tasks
// needs no word from the host in between; streams do not wait for each other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "core/codec/codec.h"
#include "core/codec/memory.h"
#include "core/control/control_plane.h"
#include "core/element/dtype.h"
#include "core/transport/transport.h"

namespace hipress {

/// A codec's functions on a device.
class DeviceCodec {
 public:
  virtual ~DeviceCodec() = default;
  /// What an error number that is not 0 means.
  virtual std::string refusal(uint32_t error) const = 0;
};

// Pointers in these are the device's, unless they are said to be the host's. What they point to, and the
// codec, stay until the work is done.

struct DeviceEncode {
  const DeviceCodec* codec = nullptr;
  std::span<const float> input;
  EncodeStates states;    ///< The arrays of pointers are the host's.
  EncodeContext context;  ///< Without `parallel`.
  std::span<std::byte> message;
  uint32_t* result = nullptr;  ///< Two words: how many bytes the message has, and an error number or 0.
};

struct DeviceDecode {
  const DeviceCodec* codec = nullptr;
  std::span<const std::byte> payload;      ///< All of it, or
  const uint32_t* payloadBytes = nullptr;  ///< so many bytes, which an encode left there.
  std::span<float> output;
  DecodeMode mode = DecodeMode::kAssign;
  uint32_t* error = nullptr;  ///< 0, or a number: the payload is no message, and the output is as it was.
};

/// Thread-safe. After close(), and after an error of the device, work is dropped; callbacks get the failure.
class DeviceStream {
 public:
  virtual ~DeviceStream() = default;

  /// What is put here from now on starts after the event, one of the device's own kind that a framework has
  /// recorded.
  virtual void waitFor(void* event) = 0;

  /// Between the device and memory of Device::staging().
  virtual void copyToDevice(std::byte* to, std::span<const std::byte> staging) = 0;
  virtual void copyToHost(std::byte* staging, std::span<const std::byte> from) = 0;

  virtual void encode(const DeviceEncode& call) = 0;
  virtual void decode(const DeviceDecode& call) = 0;
  /// As reduceInOrder() of element/reduce.h. The list of contributions is the host's and is copied.
  virtual void reduce(DType dtype, std::span<const void* const> contributions, size_t count, double factor,
                      void* output) = 0;
  /// sum := factor * values, or sum += factor * values, of floating-point values of any type.
  virtual void add(DType dtype, const void* values, float factor, DecodeMode mode, std::span<float> sum) = 0;
  /// As narrow() of element/convert.h.
  virtual void narrow(std::span<const float> values, DType dtype, void* output) = 0;

  /// Called when everything put here before is done, or with what went wrong: on a thread of the device,
  /// those of one stream in order. What the host reads of staging is there by then. Must not block.
  virtual void whenDone(EndCallback callback) = 0;

  /// Of the device's memory, that codecs compute with; kept for the next ones.
  virtual size_t scratchBytes() const = 0;

  /// Waits until everything is done and called. False if it is not by then: callbacks that have not begun
  /// are never called, but what they hold is kept until the device is done with it.
  virtual bool close(Milliseconds limit) = 0;
};

class Device {
 public:
  virtual ~Device() = default;

  /// For messages: "cuda:0".
  virtual std::string name() const = 0;

  virtual std::shared_ptr<Memory> memory() = 0;
  /// The host's, from which and to which the device copies on its own.
  virtual std::shared_ptr<Memory> staging() = 0;

  virtual std::unique_ptr<DeviceStream> makeStream() = 0;

  /// Throws Unsupported if this device has none for it.
  virtual std::shared_ptr<const DeviceCodec> codec(const CodecPointer& codec) = 0;

  /// For DeviceStream::waitFor(): what a framework has put on this stream of its own until now.
  virtual std::shared_ptr<void> eventOn(void* stream) = 0;
};

}  // namespace hipress
