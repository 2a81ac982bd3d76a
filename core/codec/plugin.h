// SPDX-License-Identifier: Apache-2.0
//
// The export of a shared library with a codec, for loadCodecLibrary(). The library includes these headers and
// links to libhipress. C++ types cross the border, so both sides need the same headers.
#pragma once

#include <cstdint>

#include "core/codec/codec.h"
#include "core/codec/registry.h"
#include "core/codec/text/options.h"

namespace hipress {

/// Grows with every change of this file, of codec.h, generated_codec.h, options.h, parallel.h, registry.h,
/// summed_encoding.h, cuda_codec.h, or of the part of core/element that generated code uses.
inline constexpr uint32_t kCodecPluginAbi = 9;

struct CodecPlugin {
  uint32_t abi = kCodecPluginAbi;  ///< Always the first field: a reader reads no other field if it differs.
  const char* compiler = "";       ///< The compiler's version, for messages.
  CodecDescription (*describe)() = nullptr;
  CodecPointer (*create)(const CodecOptions&) = nullptr;
  const char* fingerprint = "";  ///< Of program and compiler: codecs with equal fingerprints are the same.
};

/// The library's only symbol, a function; the result points to static storage.
inline constexpr const char* kCodecPluginSymbol = "hipress_codec_plugin";

}  // namespace hipress

extern "C" {
const hipress::CodecPlugin* hipress_codec_plugin();
}
