// SPDX-License-Identifier: Apache-2.0
#include "core/casync/communication_queue.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "core/thread_name.h"
#include "core/transport/bundle.h"

namespace hipress {
namespace {

using Clock = std::chrono::steady_clock;

/// Between two looks at windows that are full.
constexpr std::chrono::milliseconds kLookInterval{50};
constexpr Clock::time_point kNever = Clock::time_point::max();

/// Bytes; in shared memory larger payloads take longer to be copied into a bundle, and out of it, than to go
/// alone.
constexpr size_t kTiny = 2048;

const BundleOptions& checked(const BundleOptions& bundle) {
  if (bundle.bytes > kMaxBundleBytes) {
    throw invalidArgument("bundles of " + std::to_string(bundle.bytes) +
                          " bytes are larger than receivers take: at most " +
                          std::to_string(kMaxBundleBytes));
  }
  return bundle;
}

}  // namespace

CommunicationQueue::CommunicationQueue(Transport& transport, const CommunicationOptions& options,
                                       AskCoordinator ask)
    : transport_(transport), smallBytes_(options.bundle.messageBytes) {
  const BundleOptions& bundle = checked(options.bundle);
  BundleOptions ofTiny = bundle;
  ofTiny.messageBytes = std::min(bundle.messageBytes, kTiny);
  std::vector<bool> crossesNetwork;
  for (int peer = 0; peer < transport.worldSize(); ++peer) {
    crossesNetwork.push_back(bundle.always || transport.usesSockets(peer));
    links_.emplace_back(options.windowBytes, crossesNetwork.back() ? bundle : ofTiny);
  }
  LinkRounds rounds(transport.rank(), crossesNetwork, options.rounds);
  if (rounds.used()) {
    if (options.rounds.coordinator == Coordinator::kNone) ask = nullptr;
    RoundGate::Events events;
    events.leaves = [this](LinkRounds::Departure&& left) { toLink(left.priority, std::move(left.item)); };
    events.waits = [this] { askWatcher(watchesWindows_); };
    gate_ = std::make_unique<RoundGate>(std::move(rounds), std::move(events), std::move(ask));
  }
  watcher_ = std::thread([this] { watch(); });
}

CommunicationQueue::~CommunicationQueue() {
  stop();
}

void CommunicationQueue::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  changed_.notify_all();
  if (watcher_.joinable()) watcher_.join();
  if (gate_) gate_->stop();
}

void CommunicationQueue::push(int priority, SendRequest request, LinkQueue::StartCallback onStart) {
  const bool inRounds = goesInRounds(request);
  LinkQueue::Item item{std::move(request), std::move(onStart)};
  if (inRounds) return gate_->push(priority, std::move(item));
  toLink(priority, std::move(item));
}

bool CommunicationQueue::goesInRounds(const SendRequest& request) const {
  return gate_ && request.payload.size() > smallBytes_ && gate_->has(request.peer);
}

void CommunicationQueue::toLink(int priority, LinkQueue::Item&& item) {
  Link& link = links_[static_cast<size_t>(item.request.peer)];
  {
    const std::lock_guard lock(link.mutex);
    link.queue.push(priority, std::move(item), Clock::now());
    if (link.dispatching) return;
  }
  dispatch(link);
}

// One thread at a time: two could hand over what they took in the wrong order. And never within itself: a
// closed transport answers within send(), and thousands of waiting messages would nest as deeply.
void CommunicationQueue::dispatch(Link& link) {
  for (bool mine = false;; mine = true) {
    LinkQueue::Flight* flight = nullptr;
    LinkQueue::Hold hold = LinkQueue::Hold::kEmpty;
    {
      const std::lock_guard lock(link.mutex);
      if (!mine && link.dispatching) return;
      flight = link.queue.next(Clock::now());
      link.dispatching = flight != nullptr;
      hold = link.queue.hold();
    }
    if (flight != nullptr) {
      hand(link, *flight);
      continue;
    }
    if (hold == LinkQueue::Hold::kGather) askWatcher(watchesGathering_);
    if (hold == LinkQueue::Hold::kWindow) askWatcher(watchesWindows_);
    return;
  }
}

void CommunicationQueue::hand(Link& link, LinkQueue::Flight& flight) {
  for (const auto& item : flight.items) item.onStart();
  const int peer = flight.items.front().request.peer;
  auto onSent = [this, &link, &flight](const Failure& failure) { sent(link, flight, failure); };
  if (flight.items.size() > 1) return transport_.sendBundle({peer, flight.views, std::move(onSent)});
  SendRequest request;
  static_cast<MessageView&>(request) = flight.views.front();
  request.peer = peer;
  request.onSent = std::move(onSent);
  transport_.send(std::move(request));
}

void CommunicationQueue::sent(Link& link, LinkQueue::Flight& flight, const Failure& failure) {
  {
    const std::lock_guard lock(link.mutex);
    link.queue.sent(flight);
  }
  // Before the callbacks: the network should not wait for what completion triggers.
  dispatch(link);
  for (const auto& item : flight.items) {
    if (goesInRounds(item.request)) gate_->sent(item);
  }
  for (const auto& item : flight.items) item.request.onSent(failure);
  const std::lock_guard lock(link.mutex);
  link.queue.recycle(flight);
}

void CommunicationQueue::askWatcher(std::atomic<bool>& watches) {
  if (watches.exchange(true)) return;
  {
    const std::lock_guard lock(mutex_);
    asked_ = true;
  }
  changed_.notify_one();
}

void CommunicationQueue::watch() {
  nameThisThread("windows");
  Time gathering = kNever;
  Time windows = kNever;
  std::unique_lock lock(mutex_);
  for (;;) {
    const auto needed = [this] { return stopped_ || asked_; };
    if (const Time next = std::min(gathering, windows); next == kNever) {
      changed_.wait(lock, needed);
    } else {
      changed_.wait_until(lock, next, needed);
    }
    if (stopped_) return;
    asked_ = false;
    lock.unlock();
    // Links that ask have flags set: a first look finds out when to look again.
    if (watchesGathering_) gathering = lookAtGathering();
    if (windows <= Clock::now()) {
      windows = lookAtWindows();
    } else if (windows == kNever && watchesWindows_) {
      windows = Clock::now() + kLookInterval;
    }
    lock.lock();
  }
}

CommunicationQueue::Time CommunicationQueue::lookAtGathering() {
  // First, so that a link that starts to gather behind this look asks again.
  watchesGathering_ = false;
  Time next = kNever;
  const Time now = Clock::now();
  for (Link& link : links_) {
    bool due = false;
    {
      const std::lock_guard lock(link.mutex);
      if (link.dispatching || link.queue.hold() != LinkQueue::Hold::kGather) continue;
      due = link.queue.due() <= now;
      if (!due) next = std::min(next, link.queue.due());
    }
    if (due) dispatch(link);
  }
  if (next != kNever) watchesGathering_ = true;
  return next;
}

CommunicationQueue::Time CommunicationQueue::lookAtWindows() {
  watchesWindows_ = false;
  bool again = gate_ && gate_->look();
  for (Link& link : links_) {
    bool opened = false;
    bool waits = false;
    {
      const std::lock_guard lock(link.mutex);
      opened = link.queue.look(&waits);
    }
    again |= waits;
    if (opened) dispatch(link);
  }
  if (!again) return kNever;
  watchesWindows_ = true;
  return Clock::now() + kLookInterval;
}

}  // namespace hipress
