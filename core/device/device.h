// SPDX-License-Identifier: Apache-2.0
//
// What a device is to the engine: memory, and streams, on which the engine puts work without waiting for it.
// A stream does its work in the order in which the work was put there, so that a chain of tasks needs no word
// from the host in between; streams do not wait for each other. The host is a device, too: its stream
// (host_stream.h) does each piece of work at once. The host may not touch a GPU's memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "core/base/failure.h"
#include "core/base/memory.h"
#include "core/base/time.h"
#include "core/codec/codec.h"
#include "core/element/dtype.h"
#include "core/element/reduce.h"

namespace hipress {

/// A codec's functions on a device.
class DeviceCodec {
 public:
  virtual ~DeviceCodec() = default;
  /// The meaning of an error number that is not 0.
  virtual std::string refusal(uint32_t error) const = 0;
};

// Pointers in these calls are the device's, unless the comment says that they are the host's. The memory
// behind them, and the codec, stay until the work is done.

struct DeviceEncode {
  const Codec* codec = nullptr;              ///< As the host knows it.
  const DeviceCodec* deviceCodec = nullptr;  ///< The same codec on the device; nullptr on the host.
  std::span<const float> input;
  EncodeStates states;    ///< The arrays of pointers are the host's.
  EncodeContext context;  ///< Without `parallel`.
  std::span<std::byte> message;
  /// On the device, two words: how many bytes the message has, and an error number or 0.
  uint32_t* result = nullptr;
  /// The host's: how many bytes the message has. Written by a stream that works at once, in place of
  /// `result`.
  size_t* bytes = nullptr;
};

struct DeviceDecode {
  const Codec* codec = nullptr;
  const DeviceCodec* deviceCodec = nullptr;
  std::span<const std::byte> payload;      ///< The whole payload, or room for it if payloadBytes is given.
  const uint32_t* payloadBytes = nullptr;  ///< The payload's size, which an encode left on the device.
  std::span<float> output;
  DecodeMode mode = DecodeMode::kAssign;
  /// On the device: 0, or the number of the error if the payload is no message; the output is as it was then.
  /// A stream that works at once throws CorruptPayload instead.
  uint32_t* error = nullptr;
};

/// Thread-safe. After close(), and after an error of the device, a stream drops its work; callbacks get the
/// failure.
class DeviceStream {
 public:
  virtual ~DeviceStream() = default;

  /// Work that is put here from now on starts after the event, which is of the device's own kind and which a
  /// framework has recorded.
  virtual void waitFor(void* event) = 0;

  /// Within the device's memory.
  virtual void fillZeros(std::span<std::byte> bytes) = 0;
  virtual void copy(std::byte* to, std::span<const std::byte> from) = 0;
  /// Between the device and memory of Device::staging().
  virtual void copyToDevice(std::byte* to, std::span<const std::byte> staging) = 0;
  virtual void copyToHost(std::byte* staging, std::span<const std::byte> from) = 0;

  virtual void encode(const DeviceEncode& call) = 0;
  virtual void decode(const DeviceDecode& call) = 0;

  // The lists of contributions are the host's; the stream copies them.

  /// As combineInOrder() of element/reduce.h.
  virtual void combine(Combination combination, DType dtype, std::span<const void* const> contributions,
                       size_t count, double factor, void* output) = 0;
  /// sum := ((factor * c0 + factor * c1) + ...), or sum plus that from the left, of contributions of any
  /// floating-point type.
  virtual void add(DType dtype, std::span<const void* const> contributions, float factor, DecodeMode mode,
                   std::span<float> sum) = 0;
  /// As narrow() of element/convert.h.
  virtual void narrow(std::span<const float> values, DType dtype, void* output) = 0;

  /// Called when everything that was put here before is done, or with the failure: on a thread of the device,
  /// the callbacks of one stream in order. Results in staging memory are there by then. Must not block.
  virtual void whenDone(EndCallback callback) = 0;

  /// Device memory in which codecs compute; the stream keeps it for the next calls.
  virtual size_t scratchBytes() const = 0;

  /// Waits until all work is done and all callbacks have returned. False if `limit` passes first: callbacks
  /// that have not begun are never called, but what they hold is kept until the device is done with it.
  virtual bool close(Milliseconds limit) = 0;
};

class Device {
 public:
  virtual ~Device() = default;

  /// For messages: "cuda:0".
  virtual std::string name() const = 0;

  virtual std::shared_ptr<Memory> memory() = 0;
  /// Memory of the host, from which and to which the device copies without the processor.
  virtual std::shared_ptr<Memory> staging() = 0;

  virtual std::unique_ptr<DeviceStream> makeStream() = 0;
  /// Puts work on a stream of the device's own kind, which a framework has made and which lives as long.
  virtual std::unique_ptr<DeviceStream> makeStreamOn(void* stream) = 0;

  /// Throws Unsupported if this device has none for it.
  virtual std::shared_ptr<const DeviceCodec> codec(const CodecPointer& codec) = 0;

  /// For DeviceStream::waitFor(): the work that a framework has put on its own stream until now.
  virtual std::shared_ptr<void> eventOn(void* stream) = 0;
};

}  // namespace hipress
