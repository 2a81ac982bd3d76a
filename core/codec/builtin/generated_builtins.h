// SPDX-License-Identifier: Apache-2.0
//
// The codecs of compll/algorithms/, which the build makes into C++.
#pragma once

#include <span>

#include "core/codec/registry.h"

namespace hipress::generated {

std::span<const BuiltinCodec> builtins();

}  // namespace hipress::generated
