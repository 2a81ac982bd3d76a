// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace hipress {

/// What doctor prints about UCX.
struct UcxInfo {
  std::string version;                  ///< The version of the loaded library.
  std::string library;                  ///< Its path.
  std::vector<std::string> transports;  ///< "tcp/eth0", "posix/memory", ...: usable on this machine.
};
UcxInfo ucxInfo();

}  // namespace hipress
