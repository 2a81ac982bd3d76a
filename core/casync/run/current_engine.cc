// SPDX-License-Identifier: Apache-2.0
#include "core/casync/run/current_engine.h"

#include <mutex>
#include <optional>
#include <utility>

namespace hipress {
namespace {

std::mutex mutex;
std::shared_ptr<Engine> current;
thread_local std::optional<Error> kept;

}  // namespace

void setCurrentEngine(std::shared_ptr<Engine> engine) {
  const std::lock_guard lock(mutex);
  current.swap(engine);
}

std::shared_ptr<Engine> currentEngine() {
  const std::lock_guard lock(mutex);
  if (!current) {
    throw Error(ErrorKind::kNotInitialized,
                "HiPress is not initialised in this process; call init() first (and not after shutdown())");
  }
  return current;
}

void keepError(const Error& error) {
  kept = error;
}

void rethrowError() {
  if (const auto error = std::exchange(kept, std::nullopt)) throw Error(*error);
}

}  // namespace hipress
