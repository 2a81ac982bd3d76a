// SPDX-License-Identifier: Apache-2.0
//
// The engine's view of a device: memory, and streams on which the engine puts work without waiting. A stream
// does its work in order, so a chain of tasks needs no report to the host in between. Streams do not wait for
// each other. The host is a device, too, and its stream (host_stream.h) does each piece of work at once. The
// host may not access a GPU's memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "core/base/error.h"
#include "core/base/failure.h"
#include "core/base/memory.h"
#include "core/base/time.h"
#include "core/codec/codec.h"
#include "core/device/slot_entries.h"
#include "core/element/dtype.h"
#include "core/element/reduce.h"

namespace hipress {

/// A codec's functions on a device.
class DeviceCodec {
 public:
  virtual ~DeviceCodec() = default;
  /// The meaning of a nonzero error number.
  virtual std::string refusal(uint32_t error) const = 0;
  /// Whether DeviceStream::sum() reads all contributions to an element before it writes the sum.
  virtual bool sumsAtOnce() const { return false; }
};

// Pointers in these calls are the device's, unless a comment names the host. The memory behind them, and the
// codec, must stay until the work is done.

struct DeviceEncode {
  const Codec* codec = nullptr;              ///< The codec on the host.
  const DeviceCodec* deviceCodec = nullptr;  ///< The same codec on the device; nullptr on the host.
  std::span<const float> input;
  EncodeStates states;    ///< The arrays of pointers are the host's.
  EncodeContext context;  ///< `parallel` is not used.
  std::span<std::byte> message;
  /// Two words on the device: the size of the message in bytes, and an error number or 0. nullptr: the stream
  /// works at once, throws errors, and writes the size to `bytes`.
  uint32_t* result = nullptr;
  size_t* bytes = nullptr;  ///< On the host.
};

struct DeviceDecode {
  const Codec* codec = nullptr;
  const DeviceCodec* deviceCodec = nullptr;
  std::span<const std::byte> payload;      ///< The payload, or room for it with payloadBytes.
  const uint32_t* payloadBytes = nullptr;  ///< The payload's size from an encode on the device.
  std::span<float> output;
  DecodeMode mode = DecodeMode::kAssign;
  /// On the device: 0, or the error number of an invalid payload, which leaves the output unchanged. nullptr:
  /// the stream works at once, and throws CorruptPayload.
  uint32_t* error = nullptr;
};

/// Values, or a message whose size an encode on a device has written.
struct DeviceContribution {
  const float* values = nullptr;  ///< nullptr: it is a message.
  std::span<const std::byte> payload;
  const uint32_t* payloadBytes = nullptr;
  uint32_t* error = nullptr;  ///< As of DeviceDecode.
};

/// output := factor * (c0 + c1 + ...), in this order, in float32. The output may be the values of a
/// contribution only if DeviceCodec::sumsAtOnce().
struct DeviceSum {
  const Codec* codec = nullptr;
  const DeviceCodec* deviceCodec = nullptr;
  std::span<const DeviceContribution> contributions;  ///< On the host; the stream copies it.
  float factor = 1.0F;
  std::span<float> output;
};

/// A tensor in a step of a sum of encoded values (codec/summed_step.h), of one element at least.
struct DeviceSummed {
  const Codec* codec = nullptr;
  const DeviceCodec* deviceCodec = nullptr;
  std::span<const float> input;
  EncodeStates states;
  EncodeContext context;
  std::span<float> statistics;      ///< The rank's own; later those on which ranks have agreed.
  std::span<std::byte> levels;      ///< And one byte more: how many ranks could not encode.
  std::span<std::byte> message;     ///< Memory for a message; behind it is room for one byte more.
  uint32_t* words = nullptr;        ///< At the places of SummedWord.
  const float* gradient = nullptr;  ///< +0 if no rank has a gradient: the sum is zeros, and states stay.
  uint32_t* verdict = nullptr;      ///< := 1 if the sum is not finite.
  double factor = 1.0;
  float refused = 0.0F;  ///< The value of all elements if the sum cannot be decoded: 0 or NaN.
  std::span<float> result;
};

/// Words of a DeviceSummed.
enum SummedWord : size_t {
  kStatisticsBytes,
  kStatisticsError,
  kLevelsBytes,
  kLevelsError,
  kNotFinite,
  kTooGreat,
  kSumError,
  kKeepsOld,  ///< 1: some rank could not encode, none has a gradient, or decoding fails, so states stay.
  kSummedWords,
};

/// Thread-safe. After close(), and after an error of the device, a stream drops its work, and callbacks get
/// the failure.
class DeviceStream {
 public:
  virtual ~DeviceStream() = default;

  /// Later work on this stream starts after the event. The event is of the device's own kind, and a framework
  /// has recorded it.
  virtual void waitFor(void* event) = 0;

  /// These two work within the device's memory.
  virtual void fillZeros(std::span<std::byte> bytes) = 0;
  virtual void copy(std::byte* to, std::span<const std::byte> from) = 0;
  /// Between the device and memory of Device::staging().
  virtual void copyToDevice(std::byte* to, std::span<const std::byte> staging) = 0;
  virtual void copyToHost(std::byte* staging, std::span<const std::byte> from) = 0;

  virtual void encode(const DeviceEncode& call) = 0;
  virtual void decode(const DeviceDecode& call) = 0;
  /// One kernel reads and adds all contributions if the codec has such a kernel; otherwise one contribution
  /// after the other is added.
  virtual void sum(const DeviceSum& call);

  // As makeStatistics(), makeLevels() and finishSum() of codec/summed_step.h; by default they throw
  // Unsupported.
  virtual void makeStatistics(const DeviceSummed& call);
  virtual void makeLevels(const DeviceSummed& call);
  virtual void finishSum(const DeviceSummed& call);

  // The lists of contributions are on the host; the stream copies them.

  /// Like combineInOrder() of element/reduce.h.
  virtual void combine(Combination combination, DType dtype, std::span<const void* const> contributions,
                       size_t count, double factor, void* output) = 0;
  /// sum := ((factor * c0 + factor * c1) + ...), or the same added to sum from the left. The contributions
  /// have any floating-point type.
  virtual void add(DType dtype, std::span<const void* const> contributions, float factor, DecodeMode mode,
                   std::span<float> sum) = 0;
  /// Like narrow() of element/convert.h.
  virtual void narrow(std::span<const float> values, DType dtype, void* output) = 0;
  /// *flag := 1 if a value of a floating-point type is NaN or infinite, and otherwise unchanged. `flag` is on
  /// the device.
  virtual void flagNotFinite(DType dtype, const void* values, size_t count, uint32_t* flag) = 0;
  /// to := values, if the word, which is on the device, is not 0 by then.
  virtual void copyUnlessZero(const uint32_t* word, std::span<const float> values, float* to) = 0;

  /// values := values * (*now / *before), unless the two words, which are on the device, are equal by then.
  /// The stream copies the list. By default it throws Unsupported.
  virtual void rescale(std::span<const std::span<float>> values, const float* now, const float* before);

  // For the averages over process groups (slots/); by default they throw Unsupported. The stream copies the
  // lists. `verdict`: a word that becomes 1 if a message or an average has values that are not finite.

  /// Sets words to SlotSpan::found if a bit of the values is set; other words stay.
  virtual void findNonzero(std::span<const SlotSpan> values);
  /// The same if one of the values, which have this type, is not finite.
  virtual void findNotFinite(DType dtype, std::span<const SlotSpan> values);
  /// Writes zeros or NaN to values whose word is not 0 by then; NaN also sets *verdict.
  virtual void fillUnlessZero(std::span<const SlotFill> averages, uint32_t* verdict);
  virtual void seal(std::span<const SlotSeal> messages, uint32_t* verdict);
  virtual void check(std::span<const SlotCheck> messages, uint32_t* verdict);
  /// Puts states back, all of them if *verdict is not 0 by then.
  virtual void restore(std::span<const SlotRestore> states, const uint32_t* verdict);

  /// Lines of work that need nothing of each other. A device may join the same step of many lines. A line is
  /// called once, at once, and puts its work on this stream: encode, decode, sum, combine, add, narrow and
  /// copy.
  virtual void together(std::span<const std::function<void()>> lines) {
    for (const auto& line : lines) line();
  }

  /// Calls `callback` when all earlier work is done, or with the failure, on a thread of the device.
  /// Callbacks of a stream come in order, and staging memory has the results by then. They must not block.
  virtual void whenDone(EndCallback callback) = 0;

  /// Whether each call returns when its work is done.
  virtual bool worksAtOnce() const { return false; }

  /// Device memory in which codecs compute. The stream keeps it for later calls.
  virtual size_t scratchBytes() const = 0;

  /// Waits until all work is done and all callbacks have returned. Returns false if `limit` passes first:
  /// callbacks that have not begun never run, and their objects stay until the device is done with them.
  virtual bool close(Milliseconds limit) = 0;
};

inline void DeviceStream::makeStatistics(const DeviceSummed& call) {
  throw unsupported("codec " + std::string(call.codec->name()) +
                    " encodes values that this device cannot add; use another codec");
}
inline void DeviceStream::makeLevels(const DeviceSummed& call) {
  makeStatistics(call);
}
inline void DeviceStream::finishSum(const DeviceSummed& call) {
  makeStatistics(call);
}

inline void DeviceStream::rescale(std::span<const std::span<float>>, const float*, const float*) {
  throw unsupported("states that follow a loss scale on this device");
}

namespace detail {
[[noreturn]] inline void noSlots() {
  throw unsupported("averages over process groups on this device");
}
}  // namespace detail

inline void DeviceStream::findNonzero(std::span<const SlotSpan>) {
  detail::noSlots();
}
inline void DeviceStream::findNotFinite(DType, std::span<const SlotSpan>) {
  detail::noSlots();
}
inline void DeviceStream::fillUnlessZero(std::span<const SlotFill>, uint32_t*) {
  detail::noSlots();
}
inline void DeviceStream::seal(std::span<const SlotSeal>, uint32_t*) {
  detail::noSlots();
}
inline void DeviceStream::check(std::span<const SlotCheck>, uint32_t*) {
  detail::noSlots();
}
inline void DeviceStream::restore(std::span<const SlotRestore>, const uint32_t*) {
  detail::noSlots();
}

inline void DeviceStream::sum(const DeviceSum& call) {
  DecodeMode mode = DecodeMode::kAssign;
  for (const DeviceContribution& one : call.contributions) {
    if (one.values != nullptr) {
      const void* const values = one.values;
      add(DType::kFloat32, std::span(&values, 1), 1.0F, mode, call.output);
    } else {
      decode({call.codec, call.deviceCodec, one.payload, one.payloadBytes, call.output, mode, one.error});
    }
    mode = DecodeMode::kAccumulate;
  }
  if (call.factor == 1.0F) return;
  const void* const sum = call.output.data();
  combine(Combination::kSum, DType::kFloat32, std::span(&sum, 1), call.output.size(), call.factor,
          call.output.data());
}

class Device {
 public:
  virtual ~Device() = default;

  /// For messages: "cuda:0".
  virtual std::string name() const = 0;

  virtual std::shared_ptr<Memory> memory() = 0;
  /// Host memory from which and to which the device copies without the processor.
  virtual std::shared_ptr<Memory> staging() = 0;

  virtual std::unique_ptr<DeviceStream> makeStream() = 0;
  /// Puts work on a stream of the device's own kind, which a framework has made and which lives as long.
  virtual std::unique_ptr<DeviceStream> makeStreamOn(void* stream) = 0;

  /// Throws Unsupported if this device cannot run the codec.
  virtual std::shared_ptr<const DeviceCodec> codec(const CodecPointer& codec) = 0;

  /// For DeviceStream::waitFor(): an event after all work that a framework has put on its stream so far.
  virtual std::shared_ptr<void> eventOn(void* stream) = 0;
};

}  // namespace hipress
