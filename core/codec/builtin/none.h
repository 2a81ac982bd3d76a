// SPDX-License-Identifier: Apache-2.0
//
// `none`: the values themselves, 4 bytes each. The engine does not call this codec: it sends uncompressed
// tensors as raw messages in their own element type. The codec exists so that every place that takes a codec
// also takes `none`.
#pragma once

#include "core/codec/registry.h"
#include "core/codec/text/options.h"

namespace hipress {

CodecDescription describeNone();
CodecPointer createNone(const CodecOptions& options);

}  // namespace hipress
