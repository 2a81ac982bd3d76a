// SPDX-License-Identifier: Apache-2.0
//
// Bundles: which messages go into one and when, and what a receiver does with wrong bytes.
#include "tests/core/stress/scenarios/bundles.h"

#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "core/casync/send/communication_queue.h"
#include "core/transport/bundle.h"
#include "tests/core/stress/world/check.h"
#include "tests/core/stress/world/fake_transport.h"

namespace hipress::stress {
void gathersWhileSomethingIsInFlight() {
  FakeTransport transport;
  BundleOptions options;
  options.linger = std::chrono::hours(1);
  const Bytes bytes(40000);
  {
    CommunicationQueue queue(transport, {size_t{1} << 20, options, {}}, mustNotThrow);
    const auto push = [&](int priority, uint32_t number, size_t size) {
      queue.push(priority, numbered(number, {bytes.data(), size}, [](const Failure&) {}), [] {});
    };
    push(0, 1, 100);
    for (uint32_t number = 2; number < 6; ++number) push(static_cast<int>(number), number, 100);
    push(9, 6, bytes.size());  // too large for a bundle; small messages behind it do not hold it up
    CHECK(transport.handed().size() == 2, transport.handed().size());
    while (transport.complete()) continue;
    const auto handed = transport.handed();
    CHECK(handed.size() == 3, handed.size());
    CHECK(handed[2].size() == 4, handed[2].size());
    for (size_t index = 0; index < 4; ++index) CHECK(handed[2][index].tensor == 5 - index, index);
    push(0, 7, 100);
    for (uint32_t number = 8; number < 28; ++number) push(0, number, 8000);  // more than fits into a bundle
    CHECK(transport.handed().size() == 6, transport.handed().size());
    while (transport.complete()) continue;
  }
  options.linger = std::chrono::microseconds(100);
  CommunicationQueue queue(transport, {size_t{1} << 20, options, {}}, mustNotThrow);
  const size_t before = transport.handed().size();
  for (uint32_t number = 0; number < 3; ++number) {
    queue.push(0, numbered(number, {bytes.data(), 10}, [](const Failure&) {}), [] {});
  }
  while (transport.handed().size() < before + 2) std::this_thread::yield();  // the watchdog sets the deadline
  while (transport.complete()) continue;
}

void splitsOrRefuses(Random& random) {
  std::vector<Bytes> payloads;
  std::vector<MessageView> messages;
  for (size_t count = 1 + random.below(20); count > 0; --count)
    payloads.push_back(randomBytes(random, random.below(200)));
  for (const auto& payload : payloads) {
    MessageView& view = messages.emplace_back();
    view.tag = {static_cast<uint32_t>(messages.size()), 7, 8, 9};
    view.header.fill(static_cast<std::byte>(messages.size()));
    view.payload = payload;
  }
  Bytes packed;
  const MessageHeader header = packBundle(messages, packed);
  std::vector<MessageView> pieces;
  splitBundle(header, packed, pieces);
  CHECK(pieces.size() == messages.size(), pieces.size(), messages.size());
  for (size_t index = 0; index < pieces.size(); ++index) {
    CHECK(pieces[index].tag == messages[index].tag && pieces[index].header == messages[index].header, index);
    CHECK(std::equal(pieces[index].payload.begin(), pieces[index].payload.end(), payloads[index].begin(),
                     payloads[index].end()));
  }
  for (int turn = 0; turn < 200; ++turn) {
    MessageHeader bad = header;
    Bytes exact(packed.begin(), packed.begin() + static_cast<ptrdiff_t>(random.below(packed.size() + 1)));
    if (random.oneIn(2)) exact = packed;
    for (size_t flips = random.below(4); flips > 0 && !exact.empty(); --flips) {
      exact[random.below(exact.size())] ^= static_cast<std::byte>(1 << random.below(8));
    }
    if (random.oneIn(2)) bad[random.below(bad.size())] ^= static_cast<std::byte>(1 << random.below(8));
    if (random.oneIn(2)) {  // makes the bundle's size right, so that the receiver reads the inside
      const uint64_t size = exact.size();
      std::memcpy(bad.data() + 8, &size, sizeof size);
    }
    exact.shrink_to_fit();
    try {
      splitBundle(bad, exact, pieces);
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::kCorruptPayload, error.what());
    }
  }
}

}  // namespace hipress::stress
