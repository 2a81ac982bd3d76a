// SPDX-License-Identifier: Apache-2.0
//
// Services at rank 0 that answer questions of all ranks. A service has a name and lives as long as the job;
// only the service knows what its questions mean.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace hipress::control {

class Service {
 public:
  virtual ~Service() = default;

  /// Answers at once, from earlier questions. One thread calls it at a time. Throws Error for a
  /// question that makes no sense.
  virtual uint32_t answer(int rank, std::string_view question) = 0;
};

using ServiceMaker = std::function<std::unique_ptr<Service>(size_t worldSize)>;

/// Makes a service known under a name, before any job begins: a static object of the file that has the
/// service.
class ServiceRegistration {
 public:
  ServiceRegistration(const std::string& name, ServiceMaker maker);
};

/// nullptr: no service has this name.
std::unique_ptr<Service> makeService(const std::string& name, size_t worldSize);

}  // namespace hipress::control
