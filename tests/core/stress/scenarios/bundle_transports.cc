// SPDX-License-Identifier: Apache-2.0
//
// Bundles between two ranks: messages arrive as if each had come alone, and every callback is called once,
// however the message ends.
#include <atomic>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/casync/send/communication_queue.h"
#include "core/transport/inproc.h"
#include "core/transport/ucx/ucx_transport.h"
#include "tests/core/stress/scenarios/bundles.h"
#include "tests/core/stress/scenarios/scenarios.h"
#include "tests/core/stress/world/check.h"
#include "tests/core/stress/world/world.h"

namespace hipress::stress {
namespace {

struct Pair {
  std::unique_ptr<ControlServer> server;
  std::vector<std::shared_ptr<ControlPlane>> controls;
  std::vector<std::unique_ptr<Transport>> transports;
};

/// Sends an empty message in each direction, so that UCX connects. These tests are not about a peer that ends
/// during the connection. The thread sanitizer would also mistake new memory for its shared memory.
void greet(Transport& transport, int peer) {
  constexpr MessageTag kGreeting{1000000, 0, 0, 0};
  std::atomic<int> open{2};
  RecvRequest recv;
  recv.peer = peer;
  recv.tag = kGreeting;
  recv.onHeader = [](const MessageHeader&, size_t) { return std::span<std::byte>(); };
  recv.onReceived = [&open](const Failure&) { --open; };
  transport.recv(std::move(recv));
  SendRequest send;
  send.peer = peer;
  send.tag = kGreeting;
  send.onSent = [&open](const Failure&) { --open; };
  transport.send(std::move(send));
  while (open > 0) std::this_thread::yield();  // the watchdog sets the deadline
}

Pair connectedPair(bool ucx, Intercept interceptBundle = nullptr) {
  Pair pair;
  if (!ucx) {
    InprocOptions options;
    options.worldSize = 2;
    options.interceptBundle = std::move(interceptBundle);
    pair.transports = makeInprocTransports(options);
    return pair;
  }
  RendezvousOptions rendezvous;
  rendezvous.worldSize = 2;
  rendezvous.token = "bundles";
  pair.server = std::make_unique<ControlServer>(rendezvous);
  rendezvous.port = pair.server->port();
  pair.controls.resize(2);
  pair.transports.resize(2);
  inThreads(2, [&](int rank) {
    RendezvousOptions own = rendezvous;
    own.rank = rank;
    UcxOptions options;
    auto& control = pair.controls[static_cast<size_t>(rank)];
    control = connectControl(own, &options.localAddress);
    pair.transports[static_cast<size_t>(rank)] = makeUcxTransport(*control, options);
    greet(*pair.transports[static_cast<size_t>(rank)], 1 - rank);
  });
  return pair;
}

/// A message as its receiver sees it.
struct Inbox {
  Bytes bytes;
  Bytes header;
  bool wrong = false;
};

/// Sends messages of all sizes and priorities through a queue to a rank that posts its receives before, while
/// and after they come. All arrive whole; if the transport ends meanwhile, each callback is called once.
void reachesTheOtherEnd(Random& random, bool ucx, int endsBy) {
  Pair pair = connectedPair(ucx);
  constexpr uint32_t kMessages = 400;
  std::vector<Bytes> payloads;
  for (uint32_t number = 0; number < kMessages; ++number) {
    payloads.push_back(randomBytes(random, random.below(random.oneIn(8) ? 65536 : 3000)));
  }
  std::vector<Inbox> inboxes(kMessages);
  std::atomic<uint32_t> sent{0}, received{0}, failed{0};
  const auto recv = [&](uint32_t number) {
    RecvRequest request;
    request.peer = 0;
    request.tag = {number, 1, 2, 3};
    request.onHeader = [&inboxes, number](const MessageHeader& header, size_t bytes) {
      inboxes[number].header.assign(header.begin(), header.end());
      inboxes[number].bytes.resize(bytes);
      return std::span<std::byte>(inboxes[number].bytes);
    };
    request.onReceived = [&](const Failure& failure) {
      if (failure) ++failed;
      ++received;
    };
    pair.transports[1]->recv(std::move(request));
  };
  BundleOptions options;
  options.always = true;
  options.bytes = random.among<size_t>({1000, 1 << 16, 1 << 20});  // 1 MiB uses UCX's rendezvous protocol
  options.messageBytes = random.among<size_t>({1000, 1 << 16});
  options.linger = std::chrono::microseconds(random.among({0, 200}));
  CommunicationQueue queue(*pair.transports[0], {random.among<size_t>({1, 1 << 15, 1 << 20}), options, {}},
                           mustNotThrow);
  const uint64_t seed = random.seed();
  const size_t pause = random.below(300);
  inThreads(4, [&](int thread) {
    Random own(seed + static_cast<uint64_t>(thread));
    if (thread == 3) {
      if (endsBy == 0) return;
      std::this_thread::sleep_for(std::chrono::microseconds(pause));
      const Failure end = std::make_shared<Error>(ErrorKind::kTransport, "given up");
      const size_t victim = own.below(2);
      if (endsBy == 1) pair.transports[victim]->fail(end);
      if (endsBy == 2) pair.transports[0]->close();
      return;
    }
    for (uint32_t number = 0; number < kMessages; ++number) {
      if (thread == 2) {
        recv(number);
      } else if (number % 2 == static_cast<uint32_t>(thread)) {
        SendRequest request = numbered(number, payloads[number], [&](const Failure&) { ++sent; });
        request.header.fill(static_cast<std::byte>(number));
        queue.push(static_cast<int>(own.below(5)), std::move(request), [] {});
      }
      if (own.oneIn(20)) std::this_thread::yield();
    }
  });
  const uint64_t greetings = ucx ? 1 : 0;
  if (endsBy == 0) {
    while (received < kMessages || sent < kMessages) std::this_thread::yield();
    CHECK(failed == 0, failed);
    const auto out = pair.transports[0]->counters();
    const auto in = pair.transports[1]->counters();
    CHECK(out.messagesSent == kMessages + greetings, out.messagesSent);
    CHECK(in.messagesReceived == kMessages + greetings, in.messagesReceived);
    CHECK(out.bytesSent == in.bytesReceived, out.bytesSent, in.bytesReceived);
    CHECK(in.unexpectedBytes == 0, in.unexpectedBytes);
    for (uint32_t number = 0; number < kMessages; ++number) {
      CHECK(inboxes[number].bytes == payloads[number], number);
      CHECK(inboxes[number].header == Bytes(kMessageHeaderBytes, static_cast<std::byte>(number)), number);
    }
  }
  queue.stop();
  inThreads(2, [&](int rank) { pair.transports[static_cast<size_t>(rank)]->close(); });
  CHECK(sent == kMessages && received == kMessages, sent, received);
}

/// A damaged bundle fails all receives from its sender, present and future, and writes no memory.
void failsTheLinkOfABadBundle(Random& random) {
  const bool cuts = random.oneIn(2);
  Pair pair = connectedPair(false, [cuts](InprocMessage& bundle) {
    if (cuts) {
      bundle.payload.pop_back();
    } else {
      bundle.header[4] ^= std::byte{1};
    }
    return true;
  });
  std::atomic<int> corrupt{0};
  const auto recv = [&](uint32_t number) {
    RecvRequest request;
    request.peer = 0;
    request.tag = {number, 1, 2, 3};
    request.onHeader = [](const MessageHeader&, size_t) -> std::span<std::byte> {
      CHECK(false, "a message of a bad bundle is delivered");
      return {};
    };
    request.onReceived = [&](const Failure& failure) {
      CHECK(failure && failure->kind() == ErrorKind::kCorruptPayload);
      CHECK(std::string(failure->what()).find("rank 0") != std::string::npos, failure->what());
      ++corrupt;
    };
    pair.transports[1]->recv(std::move(request));
  };
  recv(1);
  const Bytes bytes(100);
  std::vector<MessageView> messages(2);
  messages[0].tag = {1, 1, 2, 3};
  messages[1].tag = {2, 1, 2, 3};
  for (auto& message : messages) message.payload = bytes;
  std::atomic<bool> sent{false};
  pair.transports[0]->sendBundle({1, messages, [&](const Failure&) { sent = true; }});
  while (!sent || corrupt < 1) std::this_thread::yield();
  recv(2);
  while (corrupt < 2) std::this_thread::yield();
  for (auto& transport : pair.transports) transport->close();
}

}  // namespace

void stressBundles(Random& random) {
  gathersWhileSomethingIsInFlight();
  splitsOrRefuses(random);
  failsTheLinkOfABadBundle(random);
  for (const bool ucx : {false, true}) {
    reachesTheOtherEnd(random, ucx, 0);
    reachesTheOtherEnd(random, ucx, static_cast<int>(1 + random.below(2)));
  }
}

}  // namespace hipress::stress
