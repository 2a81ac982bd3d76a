// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace hipress {

inline constexpr size_t kNonceBytes = 32;

/// Unpredictable bytes from the kernel, different for each call. Throws Transport if the kernel has none.
std::string freshNonce();

}  // namespace hipress
