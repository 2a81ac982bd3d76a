// SPDX-License-Identifier: Apache-2.0
//
// `fp16`: IEEE half precision, 2 bytes a value, rounded to nearest even. The codec is a plain cast: values
// of 65520 and above become infinity, so that a loss scaler sees them. It has no options and no error
// feedback.
#pragma once

#include "core/codec/registry.h"
#include "core/codec/text/options.h"

namespace hipress {

CodecDescription describeFp16();
CodecPointer createFp16(const CodecOptions& options);

}  // namespace hipress
