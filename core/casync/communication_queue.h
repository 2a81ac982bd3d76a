// SPDX-License-Identifier: Apache-2.0
//
// Q_commu: messages that are ready to go, link by link; in which order, and which of them together, is
// LinkQueue's part. If links are used in rounds, large messages pass a RoundGate before.
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

#include "core/casync/link_queue.h"
#include "core/casync/round_gate.h"
#include "core/transport/transport.h"

namespace hipress {

struct CommunicationOptions {
  size_t windowBytes = size_t{16} << 20;  ///< Handed to the transport per peer at a time.
  BundleOptions bundle;
  RoundOptions rounds;
};

class CommunicationQueue {
 public:
  /// `ask` is needed if rounds have a coordinator. Throws InvalidArgument for bundles that no receiver takes.
  CommunicationQueue(Transport& transport, const CommunicationOptions& options, AskCoordinator ask = nullptr);
  ~CommunicationQueue();
  CommunicationQueue(const CommunicationQueue&) = delete;
  CommunicationQueue& operator=(const CommunicationQueue&) = delete;

  /// Ends the watcher: a window that nothing moves in stays closed, and small messages wait until what is in
  /// flight is out. Idempotent.
  void stop();

  /// Thread-safe. `onStart` runs when the message leaves the queue, before request.onSent can.
  void push(int priority, SendRequest request, LinkQueue::StartCallback onStart);

  RoundCounters roundCounters() const { return gate_ ? gate_->counters() : RoundCounters(); }

 private:
  using Time = LinkQueue::Time;
  struct Link {
    Link(size_t windowBytes, const BundleOptions& bundle) : queue(windowBytes, bundle) {}
    std::mutex mutex;
    LinkQueue queue;
    bool dispatching = false;  // some thread is in dispatch(); it sees what others change
  };

  bool goesInRounds(const SendRequest& request) const;
  void toLink(int priority, LinkQueue::Item&& item);
  void dispatch(Link& link);
  void hand(Link& link, LinkQueue::Flight& flight);
  void sent(Link& link, LinkQueue::Flight& flight, const Failure& failure);
  void askWatcher(std::atomic<bool>& watches);
  void watch();
  Time lookAtGathering();
  Time lookAtWindows();

  Transport& transport_;
  const size_t smallBytes_;  // such payloads do not wait for rounds
  std::deque<Link> links_;
  std::unique_ptr<RoundGate> gate_;  // nullptr: links are not used in rounds

  // The watcher looks at links by itself only while it has said so; a link that needs it otherwise wakes it.
  std::atomic<bool> watchesGathering_{false};
  std::atomic<bool> watchesWindows_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
  bool asked_ = false;
  bool stopped_ = false;
  std::thread watcher_;
};

}  // namespace hipress
