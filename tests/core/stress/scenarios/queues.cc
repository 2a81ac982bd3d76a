// SPDX-License-Identifier: Apache-2.0
//
// Q_comp, Q_commu and the mailbox, each alone: their order, the window, and an end in the middle of work.
#include <poll.h>

#include <atomic>
#include <memory>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "core/casync/compute/compute_queue.h"
#include "core/casync/send/communication_queue.h"
#include "core/transport/mailbox.h"
#include "tests/core/stress/scenarios/scenarios.h"
#include "tests/core/stress/world/check.h"
#include "tests/core/stress/world/fake_transport.h"
#include "tests/core/stress/world/world.h"

namespace hipress::stress {
namespace {

BundleOptions noBundles() {
  BundleOptions options;
  options.bytes = 0;
  return options;
}

SendRequest message(std::span<const std::byte> payload, std::function<void(const Failure&)> onSent) {
  SendRequest request;
  request.peer = 1;
  request.payload = payload;
  request.onSent = std::move(onSent);
  return request;
}

void sendsByPriorityWithinTheWindow(Random& random) {
  constexpr size_t kWindow = 1000;
  FakeTransport transport;
  CommunicationQueue queue(transport, {kWindow, noBundles(), {}}, mustNotThrow);
  const std::vector<std::byte> bytes(2 * kWindow);
  std::vector<std::pair<int, int>> started;  // (priority, number)
  const auto push = [&](int priority, int number, size_t size) {
    queue.push(priority, message({bytes.data(), size}, [](const Failure&) {}),
               [&started, priority, number] { started.emplace_back(priority, number); });
  };
  push(0, 0, bytes.size());  // goes alone, and the other messages wait behind it
  for (int number = 1; number < 200; ++number) {
    push(static_cast<int>(random.below(5)), number, random.below(kWindow));
  }
  CHECK(started.size() == 1, started.size());
  while (transport.complete()) continue;
  CHECK(started.size() == 200, started.size());
  for (size_t index = 2; index < started.size(); ++index) {
    const auto& before = started[index - 1];
    const auto& after = started[index];
    CHECK(before.first > after.first || (before.first == after.first && before.second < after.second), index,
          before.first, before.second, after.first, after.second);
  }
  CHECK(transport.mostInFlight() <= kWindow, transport.mostInFlight());
}

void survivesManyThreadsAndItsTransportsEnd(Random& random) {
  FakeTransport transport;
  const BundleOptions bundle = random.oneIn(2) ? BundleOptions() : noBundles();
  CommunicationQueue queue(transport, {random.among<size_t>({1, 1000}), bundle, {}}, mustNotThrow);
  const std::vector<std::byte> bytes(64);
  constexpr int kThreads = 3;
  constexpr int kEach = 3000;
  std::atomic<int> ended{0};
  const size_t closeAfter = random.below(kThreads * kEach);
  inThreads(kThreads + 1, [&](int thread) {
    if (thread < kThreads) {
      for (int number = 0; number < kEach; ++number) {
        queue.push(number % 7, message(bytes, [&](const Failure&) { ++ended; }), [] {});
      }
      return;
    }
    size_t completed = 0;
    while (completed < closeAfter && transport.complete()) ++completed;
    transport.close();  // fails all waiting messages, one within another's completion
    while (transport.complete()) continue;
  });
  while (ended < kThreads * kEach) {  // the watcher may also be failing some of them
    if (!transport.complete()) std::this_thread::yield();
  }
}

/// Thousands of waiting messages that fail in send() must not nest, because a thread's stack is small.
void manyWaitingMessagesFailOnASmallStack() {
  FakeTransport transport;
  CommunicationQueue queue(transport, {1, noBundles(), {}}, mustNotThrow);
  std::atomic<int> ended{0};
  constexpr int kMessages = 20000;
  for (int number = 0; number < kMessages; ++number) {
    queue.push(0, message({}, [&](const Failure&) { ++ended; }), [] {});
  }
  transport.close();
  // On a slow machine the watcher may have opened a window; then the watcher fails the messages.
  std::thread([&] {
    while (ended < kMessages) {  // the watchdog sets the deadline
      if (!transport.complete()) std::this_thread::yield();
    }
  }).join();
}

/// With UCX's rendezvous protocol a peer may take a message after a later one that the window keeps back.
void aWindowThatDoesNotMoveLetsOthersPass() {
  FakeTransport transport;
  CommunicationQueue queue(transport, {1, BundleOptions(), {}}, mustNotThrow);
  std::atomic<int> started{0};
  for (int number = 0; number < 3; ++number) {
    queue.push(0, message({}, [](const Failure&) {}), [&] { ++started; });
  }
  CHECK(started == 1, started);
  while (started < 3) std::this_thread::yield();  // the watchdog sets the deadline
  while (transport.complete()) continue;
}

/// On a slow link a message takes longer than a window without progress counts.
void aWindowThatMovesKeepsItsPriorities() {
  FakeTransport transport;
  CommunicationQueue queue(transport, {1, BundleOptions(), {}}, mustNotThrow);
  const std::vector<std::byte> bytes(size_t{1} << 20);
  std::atomic<int> started{0};
  transport.bytesPerLook = 8192;
  for (int number = 0; number < 3; ++number) {
    queue.push(0, message(bytes, [](const Failure&) {}), [&] { ++started; });
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(600));
  CHECK(started == 1, started);
  transport.bytesPerLook = 0;  // its receiver has not asked for the message
  while (started < 2) std::this_thread::yield();
  transport.bytesPerLook = size_t{8} << 20;  // more than is in flight: other links' messages
  while (started < 3) std::this_thread::yield();
  while (transport.complete()) continue;
}

void computesByPriority(Random& random) {
  ComputeQueue queue(1, mustNotThrow);
  std::atomic<bool> blocked{true};
  std::atomic<int> remaining{300};
  std::vector<std::pair<int, int>> order;
  queue.push(1000, [&](int) {
    while (blocked) std::this_thread::yield();
  });
  for (int number = 0; number < 300; ++number) {
    const int priority = static_cast<int>(random.below(9)) - 4;
    queue.push(priority, [&, priority, number](int lane) {
      CHECK(lane == 0, lane);
      order.emplace_back(priority, number);
      --remaining;
    });
  }
  blocked = false;
  while (remaining > 0) std::this_thread::yield();
  queue.stop();
  for (size_t index = 1; index < order.size(); ++index) {
    const auto& before = order[index - 1];
    const auto& after = order[index];
    CHECK(before.first > after.first || (before.first == after.first && before.second < after.second), index);
  }
}

void stopsInTheMiddle(Random& random) {
  const auto held = std::make_shared<int>(0);
  std::atomic<int> running{0};
  {
    ComputeQueue queue(static_cast<int>(1 + random.below(4)), mustNotThrow);
    inThreads(3, [&](int thread) {
      for (int number = 0; number < 500; ++number) {
        queue.push(number % 5, [&running, held](int) {
          ++running;
          --running;
        });
      }
      if (thread == 0) queue.stop();
    });
    CHECK(running == 0, running);
    queue.push(0, [](int) { CHECK(false, "work after stop()"); });
  }
  CHECK(held.use_count() == 1, held.use_count());
}

/// Commands run in each thread's order, and none is lost. The descriptor is quiet when no command waits, or
/// else a progress thread would never sleep.
void mailboxDeliversAndSleeps(Random& random) {
  constexpr int kThreads = 3;
  constexpr int kEach = 2000;
  Mailbox mailbox;
  std::vector<int> next(kThreads, 0);
  int total = 0;
  const bool pauses = random.oneIn(2);
  inThreads(kThreads + 1, [&](int thread) {
    if (thread < kThreads) {
      for (int number = 0; number < kEach; ++number) {
        const bool taken = mailbox.post([&, thread, number] {
          CHECK(next[static_cast<size_t>(thread)]++ == number, thread, number);
          ++total;
        });
        CHECK(taken);
        if (pauses && number % 16 == 0) std::this_thread::yield();
      }
      return;
    }
    std::vector<Mailbox::Command> commands;
    while (total < kThreads * kEach) {
      mailbox.take(commands);
      for (const auto& command : commands) command();
      if (total == kThreads * kEach || !mailbox.prepareToSleep()) continue;
      pollfd descriptor{mailbox.wakeFd(), POLLIN, 0};
      CHECK(::poll(&descriptor, 1, 60000) == 1);
    }
  });
  pollfd descriptor{mailbox.wakeFd(), POLLIN, 0};
  CHECK(::poll(&descriptor, 1, 0) == 0, "the mailbox is awake with nothing in it");
  CHECK(mailbox.post([] {}));
  CHECK(mailbox.shut().size() == 1);
  CHECK(!mailbox.post([] { CHECK(false, "a command of a shut mailbox runs"); }));
  std::vector<Mailbox::Command> none;
  mailbox.take(none);
  CHECK(none.empty());
}

bool isAwake(const Mailbox& mailbox) {
  pollfd descriptor{mailbox.wakeFd(), POLLIN, 0};
  return ::poll(&descriptor, 1, 0) == 1;
}

/// Patient commands do not wake a sleeping owner, unless it sleeps for all commands. They run before the
/// command that wakes it.
void patientCommandsWait() {
  Mailbox mailbox;
  std::vector<int> ran;
  std::vector<Mailbox::Command> commands;
  CHECK(mailbox.prepareToSleep(false));
  CHECK(mailbox.postPatiently([&] { ran.push_back(1); }));
  CHECK(!isAwake(mailbox));
  CHECK(mailbox.post([&] { ran.push_back(2); }));
  CHECK(isAwake(mailbox));
  mailbox.take(commands);
  for (const auto& command : commands) command();
  CHECK((ran == std::vector<int>{1, 2}));
  CHECK(mailbox.prepareToSleep(true));
  CHECK(mailbox.postPatiently([] {}));
  CHECK(isAwake(mailbox));
  mailbox.take(commands);
  CHECK(mailbox.postPatiently([] {}));
  CHECK(!mailbox.prepareToSleep(false), "a command that came while the owner was awake is overlooked");
}

}  // namespace

void stressQueues(Random& random) {
  sendsByPriorityWithinTheWindow(random);
  survivesManyThreadsAndItsTransportsEnd(random);
  manyWaitingMessagesFailOnASmallStack();
  aWindowThatDoesNotMoveLetsOthersPass();
  aWindowThatMovesKeepsItsPriorities();
  computesByPriority(random);
  stopsInTheMiddle(random);
  mailboxDeliversAndSleeps(random);
  patientCommandsWait();
}

}  // namespace hipress::stress
