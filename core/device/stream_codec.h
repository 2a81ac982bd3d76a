// SPDX-License-Identifier: Apache-2.0
//
// Codecs that someone else's code computes on a GPU, such as a framework's operations. They have no kernels
// of ours; their code puts its own work on the stream.
#pragma once

#include <cstdint>
#include <string>

#include "core/device/device.h"

namespace hipress {

/// A stream of the GPU's own kind, and the number of the GPU.
struct StreamPlace {
  int device = 0;
  void* stream = nullptr;  ///< nullptr: the default stream.
};

/// A second base class of such codecs. It is no function of Codec, so that libraries of codecs that were
/// built before it still fit (codec/plugin.h).
class StreamCodec {
 public:
  virtual ~StreamCodec() = default;

  /// As DeviceStream::encode() and decode(). They put work on the stream and do not wait for it. They throw
  /// Error if the code itself fails.
  virtual void encodeOn(const StreamPlace& place, const DeviceEncode& call) const = 0;
  virtual void decodeOn(const StreamPlace& place, const DeviceDecode& call) const = 0;

  /// The meaning of an error number that this codec writes.
  virtual std::string refusal(uint32_t error) const = 0;
};

}  // namespace hipress
