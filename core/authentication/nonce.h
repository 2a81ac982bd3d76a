// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace hipress {

inline constexpr size_t kNonceBytes = 32;

/// Bytes that nobody can predict and that never come again, from the kernel. Throws Transport if it has none.
std::string freshNonce();

}  // namespace hipress
