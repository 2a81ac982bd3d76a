// SPDX-License-Identifier: Apache-2.0
//
// What every codec checks before it starts. These are the caller's mistakes, not the network's:
// InvalidArgument.
#pragma once

#include <string>

#include "core/codec/codec.h"
#include "core/error.h"

namespace hipress {

inline void checkEncodeArguments(const Codec& codec, std::span<const float> input, std::span<float> residual,
                                 Bytes output) {
  const auto refuse = [&](const std::string& reason) {
    throw invalidArgument("codec " + std::string(codec.name()) + ": " + reason);
  };
  if (!residual.empty() && !codec.usesResidual())
    refuse("a residual was passed, but " + codec.signature() + " keeps none");
  if (!residual.empty() && residual.size() != input.size()) {
    refuse("the residual has " + std::to_string(residual.size()) + " elements, the input " +
           std::to_string(input.size()));
  }
  if (output.size() < codec.maxEncodedBytes(input.size())) {
    refuse("the output has room for " + std::to_string(output.size()) + " bytes; encoding " +
           std::to_string(input.size()) + " elements needs " +
           std::to_string(codec.maxEncodedBytes(input.size())));
  }
}

/// Throws CorruptPayload unless the payload has exactly the size that `count` elements encode to.
inline void checkPayloadSize(const Codec& codec, ConstBytes payload, size_t count, size_t expected) {
  if (payload.size() != expected) {
    throw corruptPayload("codec " + std::string(codec.name()) + ": payload of " +
                         std::to_string(payload.size()) + " bytes for " + std::to_string(count) +
                         " elements, expected " + std::to_string(expected));
  }
}

}  // namespace hipress
