// SPDX-License-Identifier: Apache-2.0
//
// Q_commu: the messages of all links that are ready to be sent. LinkQueue chooses the next messages of a
// link. A Schedule, before the queues of the links, chooses the link of large messages.
//
// A large message is out only when its receiver has asked for it. The receiver may ask only after another
// message, which may wait here, because ranks submit their tensors in any order. So a window without progress
// stops counting after a while, and the next window opens. On a slow link a message takes longer than that
// while: bytes whose arrival the system knows of are progress, too.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "core/base/slots.h"
#include "core/casync/send/link_queue.h"
#include "core/casync/send/queued_message.h"
#include "core/casync/send/schedules/schedule.h"
#include "core/transport/transport.h"

namespace hipress {

struct CommunicationOptions {
  size_t windowBytes = size_t{16} << 20;  ///< Bytes of one link that are with the transport at a time.
  BundleOptions bundle;
  ScheduleOptions schedule;
};

class CommunicationQueue {
 public:
  /// Called on any thread if there is no memory to go on: messages are lost, so the job must end.
  using OnThrow = std::function<void(const std::exception&)>;

  /// `ask`: for a schedule that asks rank 0. Throws InvalidArgument for bundles that no receiver takes.
  CommunicationQueue(Transport& transport, const CommunicationOptions& options, OnThrow onThrow,
                     AskRank0 ask = nullptr);
  ~CommunicationQueue();
  CommunicationQueue(const CommunicationQueue&) = delete;
  CommunicationQueue& operator=(const CommunicationQueue&) = delete;

  /// Ends the watcher. After that a window without progress stays closed, and small messages wait until the
  /// messages in flight are out. Idempotent.
  void stop();

  /// Thread-safe. `onStart`, if given, runs when the message leaves the queue, before request.onSent. If the
  /// transport throws, request.onSent gets the failure. Throws std::bad_alloc.
  void push(int priority, SendRequest request, InlineFunction<void()> onStart);

  ScheduleCounters scheduleCounters() const { return schedule_->counters(); }

 private:
  struct Flight : LinkQueue::Flight {
    std::vector<QueuedMessage> queued;  // in the order of `messages`
    std::vector<MessageView> views;     // of the queued messages
  };
  struct Link {
    Link(size_t windowBytes, const BundleOptions& bundle, bool sockets)
        : usesSockets(sockets), queue(windowBytes, bundle) {}
    Flight* next();

    const bool usesSockets;  // its bytes pass the uplink
    std::mutex mutex;        // guards the members below
    LinkQueue queue;
    Slots<QueuedMessage> waiting;  // index: LinkQueue::Message::name
    // Reused: as many as the most flights at a time so far.
    std::vector<std::unique_ptr<Flight>> flights;
    std::vector<Flight*> freeFlights;
    bool dispatching = false;  // a thread is in dispatch(); it sees the changes of other threads
  };

  bool isScheduled(const SendRequest& request) const;
  void toLink(QueuedMessage&& message);
  void dispatch(Link& link, std::unique_lock<std::mutex> lock);
  void hand(Link& link, Flight& flight);
  void give(Link& link, Flight& flight);
  template <typename Body>
  void guarded(Body body);
  void sent(Link& link, Flight& flight, const Failure& failure);
  void askWatcher(std::atomic<bool>& watches);
  void watch();
  TimePoint lookAtGathering();
  TimePoint lookAtWindows();

  Transport& transport_;
  const OnThrow onThrow_;
  const size_t smallBytes_;  // payloads up to this size bypass the schedule
  std::deque<Link> links_;
  std::unique_ptr<Schedule> schedule_;

  // While these are true, the watcher checks links by itself. A link sets them and wakes the watcher.
  std::atomic<bool> watchesGathering_{false};
  std::atomic<bool> watchesWindows_{false};
  std::mutex mutex_;  // guards asked_ and stopped_
  std::condition_variable changed_;
  bool asked_ = false;
  bool stopped_ = false;
  std::thread watcher_;
};

}  // namespace hipress
