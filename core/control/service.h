// SPDX-License-Identifier: Apache-2.0
//
// Services at rank 0 that answer questions of all ranks. A service has a name and lives as long as the job.
// Only the service knows the meaning of its questions.
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

  /// Answers at once, from earlier questions. One thread calls it at a time. Throws Error for an invalid
  /// question.
  virtual uint32_t answer(int rank, std::string_view question) = 0;
};

using ServiceMaker = std::function<std::unique_ptr<Service>(size_t worldSize)>;

/// Registers a service under a name before any job begins: a static object in the file of the
/// service.
class ServiceRegistration {
 public:
  ServiceRegistration(const std::string& name, ServiceMaker maker);
};

/// Returns nullptr if no service has this name.
std::unique_ptr<Service> makeService(const std::string& name, size_t worldSize);

}  // namespace hipress::control
