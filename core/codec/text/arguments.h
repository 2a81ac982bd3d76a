// SPDX-License-Identifier: Apache-2.0
//
// Checks that every codec makes before it starts. Wrong arguments of encode are a mistake of the caller and
// throw InvalidArgument. A payload comes from the network, so a wrong one throws CorruptPayload.
#pragma once

#include <functional>
#include <string>

#include "core/base/error.h"
#include "core/codec/codec.h"

namespace hipress {

inline void checkEncodeArguments(const Codec& codec, std::span<const float> input, const EncodeStates& states,
                                 Bytes output) {
  const auto refuse = [&](const std::string& reason) {
    throw invalidArgument("codec " + std::string(codec.name()) + ": " + reason);
  };
  const size_t kept = codec.states().size();
  for (const size_t passed : {states.before.size(), states.after.size()}) {
    if (states.before.empty() && states.after.empty()) break;
    if (passed != kept) {
      refuse(std::to_string(passed) + " state vectors were passed, but " + codec.signature() + " keeps " +
             (kept == 0 ? "none" : std::to_string(kept)));
    }
  }
  // std::less compares: the language leaves the order of pointers into different arrays open.
  const std::less<> less;
  for (size_t read = 0; read < states.before.size(); ++read) {
    for (size_t written = 0; written < states.after.size(); ++written) {
      const float* const before = states.before[read];
      const float* const after = states.after[written];
      if (less(before, after + codec.states()[written].count(input.size())) &&
          less(after, before + codec.states()[read].count(input.size()))) {
        refuse("a new state overlaps an old one; they need memory of their own");
      }
    }
  }
  if (output.size() < codec.maxEncodedBytes(input.size())) {
    refuse("the output has room for " + std::to_string(output.size()) + " bytes; encoding " +
           std::to_string(input.size()) + " elements needs " +
           std::to_string(codec.maxEncodedBytes(input.size())));
  }
}

/// Throws CorruptPayload if the payload's size is not `expected`, the encoded size of `count` elements.
inline void checkPayloadSize(const Codec& codec, ConstBytes payload, size_t count, size_t expected) {
  if (payload.size() != expected) {
    throw corruptPayload("codec " + std::string(codec.name()) + ": payload of " +
                         std::to_string(payload.size()) + " bytes for " + std::to_string(count) +
                         " elements, expected " + std::to_string(expected));
  }
}

}  // namespace hipress
