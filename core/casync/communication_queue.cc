// SPDX-License-Identifier: Apache-2.0
#include "core/casync/communication_queue.h"

#include <optional>
#include <utility>

namespace hipress {

CommunicationQueue::CommunicationQueue(Transport& transport, size_t windowBytes)
    : transport_(transport), windowBytes_(windowBytes), links_(static_cast<size_t>(transport.worldSize())) {}

void CommunicationQueue::push(int priority, SendRequest request, std::function<void()> onStart) {
  Link& link = links_[static_cast<size_t>(request.peer)];
  {
    const std::lock_guard lock(link.mutex);
    link.waiting.push({priority, link.sequence++, std::move(request), std::move(onStart)});
  }
  dispatch(link);
}

void CommunicationQueue::dispatch(Link& link) {
  for (;;) {
    std::optional<Item> next;
    size_t bytes = 0;
    {
      const std::lock_guard lock(link.mutex);
      if (link.waiting.empty()) return;
      bytes = link.waiting.top().request.payload.size() + kMessageHeaderBytes;
      // A message larger than the window goes alone.
      if (link.inFlight > 0 && link.inFlight + bytes > windowBytes_) return;
      link.inFlight += bytes;
      next = std::move(const_cast<Item&>(link.waiting.top()));
      link.waiting.pop();
    }
    next->onStart();
    auto onSent = std::move(next->request.onSent);
    next->request.onSent = [this, &link, bytes, onSent = std::move(onSent)](const Failure& failure) {
      {
        const std::lock_guard lock(link.mutex);
        link.inFlight -= bytes;
      }
      // Before the callback: the network should not wait for what completion triggers.
      dispatch(link);
      onSent(failure);
    };
    transport_.send(std::move(next->request));
  }
}

}  // namespace hipress
