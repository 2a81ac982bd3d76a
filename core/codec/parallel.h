// SPDX-License-Identifier: Apache-2.0
//
// Threads that a caller lends to a codec for one large encode or decode.
#pragma once

#include <cstddef>
#include <functional>

namespace hipress {

class Parallel {
 public:
  virtual ~Parallel() = default;

  /// How many threads, the caller of run() included, may run bodies at the same time. At least 1.
  virtual size_t threads() const = 0;

  /// Calls body(0), ..., body(count - 1) once each, in any order, perhaps at the same time, and returns when
  /// all calls have ended. `body` must not throw. Several threads, and a body itself, may call run().
  virtual void run(size_t count, const std::function<void(size_t)>& body) = 0;
};

}  // namespace hipress
