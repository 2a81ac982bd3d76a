// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace hipress {

/// Name of the interface that has this IPv4 or IPv6 address ("127.0.0.1" → "lo"), or "" if none has.
std::string interfaceOf(const std::string& address);

}  // namespace hipress
