// SPDX-License-Identifier: Apache-2.0
#include "core/casync/send/communication_queue.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "core/base/thread_name.h"
#include "core/transport/bundle.h"

namespace hipress {
namespace {

/// The time between two checks of full windows.
constexpr Milliseconds kLookInterval{50};
constexpr TimePoint kNever = TimePoint::max();

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
                                       OnThrow onThrow, AskRank0 ask)
    : transport_(transport), onThrow_(std::move(onThrow)), smallBytes_(checked(options.bundle).messageBytes) {
  SchedulePlace place;
  place.rank = transport.rank();
  for (int peer = 0; peer < transport.worldSize(); ++peer) {
    const bool sockets = transport.usesSockets(peer);
    place.shareUplink.push_back(peer != place.rank && (sockets || options.bundle.always));
    links_.emplace_back(options.windowBytes, bundlesOf(options.bundle, sockets), sockets);
  }
  place.ask = std::move(ask);
  place.onLeave = [this](QueuedMessage&& message) { guarded([&] { toLink(std::move(message)); }); };
  place.onWait = [this] { askWatcher(watchesWindows_); };
  schedule_ = std::make_unique<Schedule>(options.schedule, std::move(place));
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
  schedule_->stop();
}

void CommunicationQueue::push(int priority, SendRequest request, InlineFunction<void()> onStart) {
  const bool scheduled = isScheduled(request);
  QueuedMessage message{priority, std::move(request), std::move(onStart)};
  if (scheduled) return schedule_->push(std::move(message));
  toLink(std::move(message));
}

bool CommunicationQueue::isScheduled(const SendRequest& request) const {
  return request.payload.size() > smallBytes_ && schedule_->orders(request.peer);
}

void CommunicationQueue::toLink(QueuedMessage&& message) {
  Link& link = links_[static_cast<size_t>(message.request.peer)];
  std::unique_lock lock(link.mutex);
  const int priority = message.priority;
  const auto bytes = static_cast<double>(message.request.payload.size());
  link.queue.push(priority, {link.waiting.put(std::move(message)), bytes}, Clock::now());
  dispatch(link, std::move(lock));
}

/// Returns the next flight, or nullptr. The caller has the mutex.
CommunicationQueue::Flight* CommunicationQueue::Link::next() {
  if (freeFlights.empty()) {
    flights.push_back(std::make_unique<Flight>());
    freeFlights.reserve(flights.size());  // so that the return of a flight needs no memory
    freeFlights.push_back(flights.back().get());
  }
  Flight& flight = *freeFlights.back();
  if (!queue.next(Clock::now(), flight)) return nullptr;
  freeFlights.pop_back();
  for (const LinkQueue::Message& message : flight.messages) {
    flight.queued.push_back(waiting.take(message.name));
    flight.views.push_back(flight.queued.back().request);
  }
  return &flight;
}

// One thread at a time, because two could give flights to the transport in the wrong order. And no recursion:
// a closed transport answers within send(), and thousands of waiting messages would nest as deeply.
void CommunicationQueue::dispatch(Link& link, std::unique_lock<std::mutex> lock) {
  if (link.dispatching) return;
  try {
    while (Flight* const flight = link.next()) {
      link.dispatching = true;
      lock.unlock();
      hand(link, *flight);
      lock.lock();
    }
  } catch (...) {  // no memory: the other messages must not wait for this thread
    if (!lock.owns_lock()) lock.lock();
    link.dispatching = false;
    throw;
  }
  link.dispatching = false;
  const LinkQueue::Hold hold = link.queue.hold();
  lock.unlock();
  if (hold == LinkQueue::Hold::kGather) askWatcher(watchesGathering_);
  if (hold == LinkQueue::Hold::kWindow) askWatcher(watchesWindows_);
}

void CommunicationQueue::hand(Link& link, Flight& flight) {
  Failure failure;
  try {
    return give(link, flight);
  } catch (const std::exception& error) {
    failure = failureOf(ErrorKind::kTransport, error.what());
  }
  sent(link, flight, failure);
}

void CommunicationQueue::give(Link& link, Flight& flight) {
  for (const auto& message : flight.queued) {
    if (message.onStart) message.onStart();
  }
  const int peer = flight.queued.front().request.peer;
  auto onSent = [this, &link, &flight](const Failure& failure) { sent(link, flight, failure); };
  if (flight.queued.size() > 1) return transport_.sendBundle({peer, flight.views, std::move(onSent)});
  SendRequest request;
  static_cast<MessageView&>(request) = flight.views.front();
  request.peer = peer;
  request.onSent = std::move(onSent);
  transport_.send(std::move(request));
}

void CommunicationQueue::sent(Link& link, Flight& flight, const Failure& failure) {
  // The next flight starts before the callbacks, so that the network does not wait for their work.
  guarded([&] {
    std::unique_lock lock(link.mutex);
    link.queue.sent(flight);
    dispatch(link, std::move(lock));
  });
  guarded([&] {
    for (const auto& message : flight.queued) {
      if (isScheduled(message.request)) schedule_->sent(message);
    }
  });
  for (const auto& message : flight.queued) message.request.onSent(failure);
  flight.queued.clear();
  flight.views.clear();
  const std::lock_guard again(link.mutex);
  link.freeFlights.push_back(&flight);
}

/// For threads that can do nothing with an exception.
template <typename Body>
void CommunicationQueue::guarded(Body body) {
  try {
    body();
  } catch (const std::exception& error) {
    onThrow_(error);
  }
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
  TimePoint gathering = kNever;
  TimePoint windows = kNever;
  std::unique_lock lock(mutex_);
  for (;;) {
    const auto needed = [this] { return stopped_ || asked_; };
    if (const TimePoint next = std::min(gathering, windows); next == kNever) {
      changed_.wait(lock, needed);
    } else {
      changed_.wait_until(lock, next, needed);
    }
    if (stopped_) return;
    asked_ = false;
    lock.unlock();
    // A link sets a flag before it asks. The first check finds the time of the next one.
    if (watchesGathering_) {
      gathering = kNever;
      guarded([&] { gathering = lookAtGathering(); });
    }
    if (windows <= Clock::now()) {
      windows = kNever;
      guarded([&] { windows = lookAtWindows(); });
    } else if (windows == kNever && watchesWindows_) {
      windows = Clock::now() + kLookInterval;
    }
    lock.lock();
  }
}

TimePoint CommunicationQueue::lookAtGathering() {
  // The flag is cleared before the check, so that a link that starts to gather later asks again.
  watchesGathering_ = false;
  TimePoint next = kNever;
  const TimePoint now = Clock::now();
  for (Link& link : links_) {
    std::unique_lock lock(link.mutex);
    if (link.dispatching || link.queue.hold() != LinkQueue::Hold::kGather) continue;
    if (link.queue.due() <= now) {
      dispatch(link, std::move(lock));
    } else {
      next = std::min(next, std::chrono::ceil<Clock::duration>(link.queue.due()));
    }
  }
  if (next != kNever) watchesGathering_ = true;
  return next;
}

TimePoint CommunicationQueue::lookAtWindows() {
  watchesWindows_ = false;
  schedule_->look();
  LinkQueue::Uplink uplink;
  uplink.acknowledged = transport_.acknowledgedBytes();
  for (Link& link : links_) {
    const std::lock_guard lock(link.mutex);
    if (link.usesSockets) uplink.inFlight += link.queue.inFlight();
  }
  bool again = false;
  for (Link& link : links_) {
    bool waits = false;
    std::unique_lock lock(link.mutex);
    const bool opened = link.queue.look(link.usesSockets ? uplink : LinkQueue::Uplink{}, &waits);
    again |= waits;
    if (opened) dispatch(link, std::move(lock));
  }
  if (!again) return kNever;
  watchesWindows_ = true;
  return Clock::now() + kLookInterval;
}

}  // namespace hipress
