// SPDX-License-Identifier: Apache-2.0
#include "core/casync/agree/tensor_group.h"

#include <algorithm>
#include <map>

#include "core/base/error.h"

namespace hipress {
namespace {

/// The description of a member's way if it travelled alone, without name, size and priority.
std::string wayOf(TensorSpec spec) {
  spec.shape.clear();
  return spec.describe();
}

}  // namespace

std::string listedNames(const std::vector<std::string>& names) {
  constexpr size_t kShown = 3;
  std::string text;
  for (size_t i = 0; i < std::min(kShown, names.size()); ++i) text += (i == 0 ? "'" : ", '") + names[i] + "'";
  if (names.size() > kShown) text += " and " + std::to_string(names.size() - kShown) + " more";
  return text;
}

std::vector<std::vector<size_t>> groupsOf(const std::vector<TensorSpec>& specs) {
  std::vector<std::vector<size_t>> groups;
  std::map<std::string, size_t> known;
  for (size_t i = 0; i < specs.size(); ++i) {
    if (specs[i].group().empty()) continue;
    const auto [position, isNew] = known.try_emplace(specs[i].group(), groups.size());
    if (isNew) groups.emplace_back();
    groups[position->second].push_back(i);
  }
  return groups;
}

TensorSpec groupSpec(const std::vector<TensorSpec>& specs, const std::vector<size_t>& members) {
  const TensorSpec& first = specs[members.front()];
  const std::string where = "group '" + first.group() + "': ";
  TensorSpec together = first;
  together.count = 0;
  std::vector<std::string> names;
  std::vector<std::string> lastingNames;
  for (const size_t index : members) {
    const TensorSpec& spec = specs[index];
    if (spec.allreduce() == nullptr || spec.transient) {
      throw invalidArgument(where + "'" + spec.name + "' is not synchronised in each step; leave it out");
    }
    if (spec.device != first.device) {
      throw invalidArgument(where + "'" + first.name + "' and '" + spec.name +
                            "' are on different devices; the tensors of a group are on one device");
    }
    if (wayOf(spec) != wayOf(first)) {
      throw invalidArgument(where + "'" + first.name + "' (" + wayOf(first) + ") and '" + spec.name + "' (" +
                            wayOf(spec) + ") cannot travel together; the tensors of a group are sent alike");
    }
    together.count += spec.count;
    together.priority = std::max(together.priority, spec.priority);
    names.push_back(spec.name);
    lastingNames.push_back(spec.lastingName);
  }
  together.name = first.group() + " of " + listedNames(names);
  if (!first.lastingName.empty()) {
    together.lastingName = first.group() + " of " + listedNames(lastingNames);
  }
  together.shape = "[" + std::to_string(together.count) + "]";
  std::get<AllreduceOptions>(together.options).group.clear();
  return together;
}

}  // namespace hipress
