// SPDX-License-Identifier: Apache-2.0
#include "core/transport/neighbour/hosts.h"

#include <string>
#include <unordered_map>

#include "core/transport/neighbour/host_identity.h"

namespace hipress {

std::vector<int> gatherHosts(ControlPlane& control, Milliseconds timeout) {
  std::unordered_map<std::string, int> numbers;
  std::vector<int> hosts;
  for (const auto& identity : control.allgather("hosts", hostIdentity(), timeout)) {
    hosts.push_back(numbers.try_emplace(identity, static_cast<int>(numbers.size())).first->second);
  }
  return hosts;
}

}  // namespace hipress
