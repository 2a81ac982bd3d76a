// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace hipress {

/// The facts about UCX that `hipress doctor` prints.
struct UcxInfo {
  std::string version;                  ///< Version of the loaded library.
  std::string library;                  ///< Path of the loaded library.
  std::vector<std::string> transports;  ///< Usable on this machine: "tcp/eth0", "posix/memory", ...
};
UcxInfo ucxInfo();

}  // namespace hipress
