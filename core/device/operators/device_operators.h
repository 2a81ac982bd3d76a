// SPDX-License-Identifier: Apache-2.0
//
// Encoding and decoding on a device for the codec operators of frameworks (codec/operator_codec.h). Each call
// puts its work on the framework's stream and returns; neither waits for the other. So a message has the
// codec's maximal size, and the device writes the payload's size into its end:
//
//     payload, unused bytes up to a multiple of 4 | uint32 payload bytes | uint32 error number
//
// Errors that the device finds become known later: raise() throws them.
//
// The synchronising operators of TensorFlow add unsent residuals to values on the framework's stream here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>

#include "core/base/failure.h"
#include "core/base/time.h"
#include "core/codec/codec.h"
#include "core/codec/operator_codec.h"
#include "core/device/device.h"
#include "core/element/dtype.h"

namespace hipress {

/// The bytes after the payload's room.
inline constexpr size_t kDeviceMessageEnd = 2 * sizeof(uint32_t);

/// One encode. All pointers are the device's, and the memory stays until the work is done.
struct DeviceOperatorEncode {
  std::span<const float> input;
  std::span<const OperatorState> states;
  EncodeContext context;
  std::span<float> workspace;  ///< workspaceFloats()
  Bytes message;               ///< messageBytes(), aligned to 4 bytes
};

/// Thread-safe. A device has one of these for the life of the process.
class DeviceOperators {
 public:
  explicit DeviceOperators(std::shared_ptr<Device> device);
  ~DeviceOperators();

  const std::shared_ptr<Device>& device() const { return device_; }

  /// The size of the codec's messages for so many elements. Throws Unsupported if it does not fit in 32 bits.
  size_t messageBytes(const Codec& codec, size_t count) const;
  /// The memory that encode() needs besides. Throws the errors of checkOperatorStates().
  size_t workspaceFloats(const Codec& codec, size_t count, std::span<const OperatorState> states) const;

  /// Like operatorEncode(), on the framework's stream `stream`. Throws Unsupported if the device has no code
  /// for the codec; InvalidArgument.
  void encode(void* stream, const CodecPointer& codec, const DeviceOperatorEncode& call);
  /// Decodes a message of encode(). A payload that the device refuses leaves a sum unchanged, and with
  /// kAssign NaN in all elements. Throws Unsupported, InvalidArgument.
  void decode(void* stream, const CodecPointer& codec, ConstBytes message, std::span<float> output,
              DecodeMode mode);

  /// A copy within the device.
  void copy(void* stream, std::byte* to, ConstBytes from);
  /// output := values + held, computed in float32 in the workspace, which has held.size() elements like the
  /// others. `held` is in host memory and need not stay. `output` may be `values`.
  void addHeld(void* stream, DType dtype, const void* values, std::span<const float> held,
               std::span<float> workspace, void* output);
  /// Calls `callback` with a copy of the bytes in host memory, or with the device's failure, on a thread of
  /// the device and when the work on the stream so far is done. It must not block.
  void read(void* stream, ConstBytes from, std::function<void(const Failure&, ConstBytes)> callback);

  /// Throws the first error that the device has reported, once: CorruptPayload, InvalidArgument, or the
  /// device's own. It does not wait.
  void raise();
  /// Waits until all work up to here is done. Throws Timeout, and the errors of raise().
  void wait(Milliseconds limit);

 private:
  struct Lane;
  struct Reports;
  struct Staged;

  std::shared_ptr<Lane> lane(void* stream);
  std::shared_ptr<const DeviceCodec> functions(const CodecPointer& codec);
  void report(Lane& lane, std::shared_ptr<const DeviceCodec> codec, const uint32_t* word, bool ofDecode);

  const std::shared_ptr<Device> device_;
  const std::shared_ptr<Reports> reports_;  // callbacks of the device use them after this has ended
  std::mutex mutex_;
  std::map<void*, std::shared_ptr<Lane>> lanes_;
  std::map<CodecPointer, std::shared_ptr<const DeviceCodec>> functions_;
};

}  // namespace hipress
