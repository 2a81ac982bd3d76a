// SPDX-License-Identifier: Apache-2.0
//
// Threads that a codec may use for one large encode or decode, lent to it by its caller.
#pragma once

#include <cstddef>
#include <functional>

namespace hipress {

class Parallel {
 public:
  virtual ~Parallel() = default;

  /// How many threads may run bodies at the same time, the caller of run() among them. At least 1.
  virtual size_t threads() const = 0;

  /// Calls body(0), ..., body(count - 1), each once, in any order and maybe at the same time; returns when
  /// all have ended. `body` does not throw. May be called from several threads, and from within a body.
  virtual void run(size_t count, const std::function<void(size_t)>& body) = 0;
};

}  // namespace hipress
