// SPDX-License-Identifier: Apache-2.0
#include "core/casync/link_queue.h"

#include <utility>

#include "core/transport/bundle.h"

namespace hipress {
namespace {

/// A window in which nothing moved is not waited for after so many looks.
constexpr int kQuietLooks = 2;

}  // namespace

size_t LinkQueue::bytesInBundle(const Waiting& waiting) {
  return waiting.bytes - kMessageHeaderBytes + kPieceHeadBytes;
}

bool LinkQueue::isSmall(size_t payloadBytes) const {
  return payloadBytes <= bundle_.messageBytes && payloadBytes + kPieceHeadBytes <= bundle_.bytes;
}

void LinkQueue::push(int priority, Item&& item, Time now) {
  Waiting waiting{priority, sequence_++, item.request.payload.size() + kMessageHeaderBytes, slots_.size()};
  if (freeSlots_.empty()) {
    slots_.push_back(std::move(item));
  } else {
    waiting.slot = freeSlots_.back();
    freeSlots_.pop_back();
    slots_[waiting.slot] = std::move(item);
  }
  if (!isSmall(waiting.bytes - kMessageHeaderBytes)) return large_.push(waiting);
  if (small_.empty()) due_ = now + bundle_.linger;
  smallBytes_ += bytesInBundle(waiting);
  small_.push(waiting);
}

LinkQueue::Flight* LinkQueue::next(Time now) {
  if (small_.empty() && large_.empty()) return nothing(Hold::kEmpty);
  const bool isLarge = small_.empty() || (!large_.empty() && small_.top() < large_.top());
  Heap& heap = isLarge ? large_ : small_;
  if (!fits(heap.top().bytes)) return nothing(Hold::kWindow);
  if (!isLarge && flying_ > 0 && smallBytes_ < bundle_.bytes && now < due_) return nothing(Hold::kGather);

  Flight& flight = newFlight();
  size_t size = 0;
  do {
    size += bytesInBundle(heap.top());
    board(flight, heap);
    // Large messages of higher priority than the last of these are held up by no more than one bundle.
  } while (!isLarge && !small_.empty() && size + bytesInBundle(small_.top()) <= bundle_.bytes &&
           fits(small_.top().bytes));
  if (!isLarge) {
    smallBytes_ -= size;
    due_ = now + bundle_.linger;
  }
  return &flight;
}

LinkQueue::Flight* LinkQueue::nothing(Hold why) {
  hold_ = why;
  return nullptr;
}

LinkQueue::Flight& LinkQueue::newFlight() {
  if (freeFlights_.empty()) {
    flights_.push_back(std::make_unique<Flight>());
    freeFlights_.push_back(flights_.back().get());
  }
  Flight& flight = *freeFlights_.back();
  freeFlights_.pop_back();
  flight.bytes = 0;
  flight.window = window_;
  ++flying_;
  return flight;
}

void LinkQueue::board(Flight& flight, Heap& heap) {
  const Waiting first = heap.top();
  heap.pop();
  flight.bytes += first.bytes;
  inFlight_ += first.bytes;
  flight.items.push_back(std::move(slots_[first.slot]));
  flight.views.push_back(flight.items.back().request);
  freeSlots_.push_back(first.slot);
}

void LinkQueue::sent(const Flight& flight) {
  if (flight.window == window_) inFlight_ -= flight.bytes;
  --flying_;
  quietLooks_ = 0;
}

void LinkQueue::recycle(Flight& flight) {
  flight.items.clear();
  flight.views.clear();
  freeFlights_.push_back(&flight);
}

bool LinkQueue::look(bool* waits) {
  *waits = !(small_.empty() && large_.empty());
  if (*waits && ++quietLooks_ <= kQuietLooks) return false;
  quietLooks_ = 0;
  if (!*waits) return false;
  ++window_;
  inFlight_ = 0;
  return true;
}

}  // namespace hipress
