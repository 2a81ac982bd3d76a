// SPDX-License-Identifier: Apache-2.0
//
// Q_commu: the messages of all links that are ready to be sent. LinkQueue decides which messages of a link go
// next; a Schedule, in front of the links' queues, decides which link large messages use.
//
// A large message is out only when its receiver has asked for it, and the receiver may ask only after it got
// another message, one that waits here: ranks submit their tensors in any order. So a window in which nothing
// moves for a while does not count any more, and the next one opens.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
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
  size_t windowBytes = size_t{16} << 20;  ///< With the transport at a time, of one link.
  BundleOptions bundle;
  ScheduleOptions schedule;
};

class CommunicationQueue {
 public:
  /// `ask`: for a schedule that asks rank 0. Throws InvalidArgument for bundles that no receiver takes.
  CommunicationQueue(Transport& transport, const CommunicationOptions& options, AskRank0 ask = nullptr);
  ~CommunicationQueue();
  CommunicationQueue(const CommunicationQueue&) = delete;
  CommunicationQueue& operator=(const CommunicationQueue&) = delete;

  /// Ends the watcher: a window in which nothing moves stays closed, and small messages wait until the
  /// messages in flight are out. Idempotent.
  void stop();

  /// Thread-safe. `onStart`, if given, runs when the message leaves the queue, before request.onSent can.
  void push(int priority, SendRequest request, InlineFunction<void()> onStart);

  ScheduleCounters scheduleCounters() const { return schedule_->counters(); }

 private:
  struct Flight : LinkQueue::Flight {
    std::vector<QueuedMessage> queued;  // in the order of `messages`
    std::vector<MessageView> views;     // of them
  };
  struct Link {
    Link(size_t windowBytes, const BundleOptions& bundle) : queue(windowBytes, bundle) {}
    Flight* next();

    std::mutex mutex;  // guards everything below
    LinkQueue queue;
    Slots<QueuedMessage> waiting;  // by LinkQueue::Message::name
    // Used again: as many as were ever in flight at a time.
    std::vector<std::unique_ptr<Flight>> flights;
    std::vector<Flight*> freeFlights;
    bool dispatching = false;  // a thread is in dispatch(); it sees what other threads change
  };

  bool isScheduled(const SendRequest& request) const;
  void toLink(QueuedMessage&& message);
  void dispatch(Link& link, std::unique_lock<std::mutex> lock);
  void hand(Link& link, Flight& flight);
  void sent(Link& link, Flight& flight, const Failure& failure);
  void askWatcher(std::atomic<bool>& watches);
  void watch();
  TimePoint lookAtGathering();
  TimePoint lookAtWindows();

  Transport& transport_;
  const size_t smallBytes_;  // such payloads do not wait for the schedule
  std::deque<Link> links_;
  std::unique_ptr<Schedule> schedule_;

  // The watcher looks at links by itself only while these say so; a link that needs it otherwise wakes it.
  std::atomic<bool> watchesGathering_{false};
  std::atomic<bool> watchesWindows_{false};
  std::mutex mutex_;  // guards asked_ and stopped_
  std::condition_variable changed_;
  bool asked_ = false;
  bool stopped_ = false;
  std::thread watcher_;
};

}  // namespace hipress
