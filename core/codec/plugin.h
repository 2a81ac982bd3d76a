// SPDX-License-Identifier: Apache-2.0
//
// What a shared library with a codec exports, for loadCodecLibrary(). It is compiled against these headers
// and linked with libhipress; C++ types cross the border, so both sides need the same headers.
#pragma once

#include <cstdint>

#include "core/codec/codec.h"
#include "core/codec/registry.h"
#include "core/codec/text/options.h"

namespace hipress {

/// Increased with every change of this file, codec.h, generated_codec.h, options.h, parallel.h, registry.h,
/// summed_encoding.h or of what generated code uses of core/element.
inline constexpr uint32_t kCodecPluginAbi = 4;

struct CodecPlugin {
  uint32_t abi = kCodecPluginAbi;  ///< First for ever: nothing else is read if it differs.
  const char* compiler = "";       ///< What compiled it, for messages.
  CodecDescription (*describe)() = nullptr;
  CodecPointer (*create)(const CodecOptions&) = nullptr;
  const char* fingerprint = "";  ///< Of the program and of what compiled it: equal ones are one codec.
};

/// The one symbol; points to static storage.
inline constexpr const char* kCodecPluginSymbol = "hipress_codec_plugin";

}  // namespace hipress

extern "C" {
const hipress::CodecPlugin* hipress_codec_plugin();
}
