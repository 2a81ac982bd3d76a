// SPDX-License-Identifier: Apache-2.0
//
// The meaning of empty payloads, which all codecs share.
#include "core/codec/codec.h"

#include <algorithm>
#include <limits>

#include "core/base/error.h"

namespace hipress {

void Codec::decode(ConstBytes payload, std::span<float> output, DecodeMode mode, Parallel* parallel) const {
  if (output.empty()) {
    if (payload.empty()) return;
    throw corruptPayload("codec " + std::string(name()) + ": payload of " + std::to_string(payload.size()) +
                         " bytes for 0 elements, expected 0");
  }
  if (payload.empty()) {
    std::ranges::fill(output, std::numeric_limits<float>::quiet_NaN());
    return;
  }
  decodePayload(payload, output, mode, parallel);
}

}  // namespace hipress
