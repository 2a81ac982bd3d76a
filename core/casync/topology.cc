// SPDX-License-Identifier: Apache-2.0
#include "core/casync/topology.h"

#include <algorithm>

#include "core/error.h"

namespace hipress {

const std::vector<std::string>& topologyNames() {
  static const std::vector<std::string> names = {"ps"};
  return names;
}

void checkTopologyName(std::string_view name) {
  const auto& names = topologyNames();
  if (std::find(names.begin(), names.end(), name) != names.end()) return;
  std::string known;
  for (const auto& each : names) known += (known.empty() ? "" : ", ") + each;
  throw invalidArgument("there is no topology '" + std::string(name) + "'; choose one of: " + known);
}

TaskGraph buildTopology(std::string_view name, const TopologyContext& context) {
  checkTopologyName(name);
  return buildPs(context);
}

}  // namespace hipress
