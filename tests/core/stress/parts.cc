// SPDX-License-Identifier: Apache-2.0
//
// What operations borrow: staging memory.
#include <cstdint>
#include <cstring>
#include <utility>

#include "core/casync/buffer_pool.h"
#include "tests/core/stress/check.h"
#include "tests/core/stress/scenarios.h"
#include "tests/core/stress/world.h"

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
  const size_t once = pool.bytesHeld();
  CHECK(once > 0);
  // Nobody holds a buffer: what one thread at a time needs is here already.
  for (const size_t bytes : {size_t{1}, size_t{256}}) pool.take(bytes).release();
  CHECK(pool.bytesHeld() == once, pool.bytesHeld(), once);

  BufferPool::Buffer moved = pool.take(1000);
  BufferPool::Buffer target = std::move(moved);
  CHECK(!moved && target);
  target.release();
  target.release();
  CHECK(!target);
}

}  // namespace

void stressParts(Random& random) {
  poolGivesEveryoneTheirOwn(random);
}

}  // namespace hipress::stress
