// SPDX-License-Identifier: Apache-2.0
//
// `none`: the values themselves, 4 bytes each. The engine sends uncompressed tensors as raw messages, in
// their own dtype and without this codec; it exists so that `none` is a codec like any other wherever one is
// named.
#pragma once

#include "core/codec/registry.h"
#include "core/codec/text/options.h"

namespace hipress {

CodecDescription describeNone();
CodecPointer createNone(const CodecOptions& options);

}  // namespace hipress
