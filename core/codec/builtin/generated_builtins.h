// SPDX-License-Identifier: Apache-2.0
//
// The built-in codecs that the build generates from the programs in compll/algorithms/.
#pragma once

#include <span>

#include "core/codec/registry.h"

namespace hipress::generated {

std::span<const BuiltinCodec> builtins();

}  // namespace hipress::generated
