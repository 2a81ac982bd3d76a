// SPDX-License-Identifier: Apache-2.0
//
// Codecs with which an aggregator encodes and decodes its own contribution before it merges it, so that its
// values count as all others do: in a vote of signs, for example.
#pragma once

#include "core/codec/codec.h"

namespace hipress {

/// A second base class of such codecs. They keep no states. It is no function of Codec, so that libraries of
/// codecs that were built before it still fit (plugin.h).
class MergedDecoded {
 public:
  virtual ~MergedDecoded() = default;
};

inline bool mergesDecoded(const Codec& codec) {
  return dynamic_cast<const MergedDecoded*>(&codec) != nullptr;
}

}  // namespace hipress
