// SPDX-License-Identifier: Apache-2.0
#include "core/control/service.h"

#include <map>
#include <utility>

namespace hipress::control {
namespace {

std::map<std::string, ServiceMaker>& makers() {
  static std::map<std::string, ServiceMaker> all;
  return all;
}

}  // namespace

ServiceRegistration::ServiceRegistration(const std::string& name, ServiceMaker maker) {
  makers()[name] = std::move(maker);
}

std::unique_ptr<Service> makeService(const std::string& name, size_t worldSize) {
  const auto found = makers().find(name);
  return found == makers().end() ? nullptr : found->second(worldSize);
}

}  // namespace hipress::control
