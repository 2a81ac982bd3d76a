// SPDX-License-Identifier: Apache-2.0
#include "bindings/module/threads.h"

#include <unistd.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "core/base/error.h"
#include "core/casync/compute/compute_queue.h"

namespace hipress::bindings {
namespace {

class CallerAndHelpers final : public Parallel {
 public:
  explicit CallerAndHelpers(int threads)
      : helpers_(threads - 1, nullptr) {}  // run() gives a body's exception to its caller
  size_t threads() const override { return helpers_.threads() + 1; }
  void run(size_t count, const std::function<void(size_t)>& body) override { helpers_.run(count, body); }

 private:
  ComputeQueue helpers_;
};

}  // namespace

Parallel* threadsFor(int threads) {
  constexpr int kMost = 1024;
  if (threads < 1 || threads > kMost) {
    throw invalidArgument("threads must be in 1.." + std::to_string(kMost) + ", not " +
                          std::to_string(threads));
  }
  if (threads == 1) return nullptr;
  // Never destroyed, and one set per process: a forked child must not wait for its parent's threads.
  using Pools = std::map<std::pair<pid_t, int>, std::unique_ptr<CallerAndHelpers>>;
  static std::mutex mutex;
  static auto& pools = *new Pools;
  const std::lock_guard lock(mutex);
  auto& pool = pools[{::getpid(), threads}];
  if (pool == nullptr) pool = std::make_unique<CallerAndHelpers>(threads);
  return pool.get();
}

}  // namespace hipress::bindings
