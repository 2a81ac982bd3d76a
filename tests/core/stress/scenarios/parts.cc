// SPDX-License-Identifier: Apache-2.0
//
// The staging memory that operations borrow.
#include <cstdint>
#include <cstring>
#include <utility>

#include "core/base/buffer_pool.h"
#include "tests/core/stress/scenarios/scenarios.h"
#include "tests/core/stress/world/check.h"
#include "tests/core/stress/world/world.h"

namespace hipress::stress {
namespace {

void poolGivesEveryoneTheirOwn(Random& random) {
  BufferPool pool;
  const uint64_t seed = random.seed();
  const auto use = [&] {
    inThreads(3, [&](int thread) {
      Random own(seed + static_cast<uint64_t>(thread));
      std::vector<std::pair<BufferPool::Buffer, size_t>> held;
      for (int turn = 0; turn < 300; ++turn) {
        const size_t bytes = own.below(own.oneIn(8) ? 100000 : 3000);
        auto buffer = pool.take(bytes);
        CHECK(buffer && reinterpret_cast<uintptr_t>(buffer.data()) % 64 == 0, bytes);
        std::memset(buffer.data(), thread + 1, bytes);
        held.emplace_back(std::move(buffer), bytes);
        if (!own.oneIn(3)) std::swap(held[own.below(held.size())], held.back());
        if (held.size() > 8) {
          for (const std::byte value : held.back().first.first(held.back().second)) {
            CHECK(value == static_cast<std::byte>(thread + 1), "two threads have one buffer");
          }
          held.pop_back();
        }
      }
    });
  };
  use();
  const auto once = pool.statistics();
  CHECK(once.held > 0 && once.inUse == 0, once.held, once.inUse);
  CHECK(once.held <= once.peakInUse + once.peakInUse / 4, once.held, once.peakInUse);
  for (const size_t bytes : {size_t{1}, size_t{256}}) pool.take(bytes).release();
  const auto then = pool.statistics();
  CHECK(then.held <= then.peakInUse + then.peakInUse / 4, then.held, then.peakInUse);

  BufferPool::Buffer moved = pool.take(1000);
  BufferPool::Buffer target = std::move(moved);
  CHECK(!moved && target);
  target.release();
  target.release();
  CHECK(!target);
}

/// The pool frees a peak's memory some time later; meanwhile repeated requests get their buffers again.
void poolForgetsAPeak(Random& random) {
  constexpr size_t kLarge = size_t{1} << 20;
  BufferPool pool;
  {
    std::vector<BufferPool::Buffer> peak;
    for (int count = 0; count < 10; ++count) peak.push_back(pool.take(kLarge));
  }
  CHECK(pool.statistics().held == 10 * kLarge, pool.statistics().held);
  const std::byte* large = nullptr;
  for (int turn = 0; turn < 10000; ++turn) {
    const auto buffer = pool.take(kLarge - random.below(kLarge / 8));
    const auto small = pool.take(1 + random.below(5000));
    if (turn > 9000 && large != nullptr)
      CHECK(buffer.data() == large, "a buffer that fits was not used again");
    large = buffer.data();
  }
  const auto after = pool.statistics();
  CHECK(after.peakInUse == 10 * kLarge, after.peakInUse);
  CHECK(after.held <= 2 * kLarge, after.held);
}

}  // namespace

void stressParts(Random& random) {
  poolForgetsAPeak(random);
  poolGivesEveryoneTheirOwn(random);
}

}  // namespace hipress::stress
