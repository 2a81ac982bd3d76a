// SPDX-License-Identifier: Apache-2.0
#include "core/casync/send/link_queue.h"

#include <algorithm>

#include "core/transport/bundle.h"

namespace hipress {
namespace {

/// A window counts for this number of look() calls without progress.
constexpr int kQuietLooks = 2;
/// So many acknowledged bytes between two looks are of a large message and not of heartbeats.
constexpr uint64_t kMovingBytes = 4096;
/// What connections carry beside the bytes of messages.
constexpr double kOverhead = 1.1;
/// With a smaller share in flight the link is more likely idle than busy. In the runtime all shares are
/// 1.
constexpr double kBusy = 0.5;
/// Bytes of a payload.
constexpr size_t kLargestBundledOnHost = 2048;

double bytesInBundle(const LinkQueue::Message& message) {
  return message.share * (message.payload + static_cast<double>(kPieceHeadBytes));
}

}  // namespace

BundleOptions bundlesOf(const BundleOptions& options, bool throughSockets) {
  BundleOptions result = options;
  if (!throughSockets && !options.always) {
    result.messageBytes = std::min(options.messageBytes, kLargestBundledOnHost);
  }
  return result;
}

bool LinkQueue::isSmall(const Message& message) const {
  return message.payload <= static_cast<double>(bundle_.messageBytes) &&
         message.payload + static_cast<double>(kPieceHeadBytes) <= static_cast<double>(bundle_.bytes);
}

bool LinkQueue::fits(const Message& message) const {
  return windowFlights_ == 0 || windowInFlight_ + message.bytes() <= windowBytes_;
}

void LinkQueue::push(int priority, const Message& message, Time now) {
  Heap& heap = isSmall(message) ? small_ : large_;
  if (&heap == &small_) {
    if (small_.empty()) due_ = now + linger_;
    smallBytes_ += bytesInBundle(message);
  }
  heap.push({priority, pushed_++, message});
}

bool LinkQueue::next(Time now, Flight& flight) {
  flight.messages.clear();
  hold_ = Hold::kEmpty;
  if (small_.empty() && large_.empty()) return false;
  const bool alone = small_.empty() || (!large_.empty() && small_.top() < large_.top());
  Heap& heap = alone ? large_ : small_;
  hold_ = Hold::kWindow;
  if (!fits(heap.top().value)) return false;
  hold_ = Hold::kGather;
  const auto most = static_cast<double>(bundle_.bytes);
  if (!alone && flyingShare_ >= kBusy && smallBytes_ < most && now < due_) return false;

  ++flights_;
  ++windowFlights_;
  flight.bytes = flight.share = 0;
  flight.window = window_;
  double bundle = 0;
  do {
    const Message& message = heap.top().value;
    bundle += bytesInBundle(message);
    flight.bytes += message.bytes();
    flight.share += message.share;
    windowInFlight_ += message.bytes();
    flight.messages.push_back(message);
    heap.pop();
    // A large message of higher priority than the last message of the bundle waits for one bundle at most.
  } while (!alone && !small_.empty() && bundle + bytesInBundle(small_.top().value) <= most &&
           fits(small_.top().value));
  flight.share = std::min(1.0, flight.share);
  flyingShare_ += flight.share;
  flyingBytes_ += flight.bytes;
  if (alone) return true;
  smallBytes_ = small_.empty() ? 0 : smallBytes_ - bundle;
  due_ = now + linger_;
  return true;
}

void LinkQueue::sent(const Flight& flight) {
  // Sums of shares are rounded, so an empty window and an idle link are set to 0 exactly.
  if (flight.window == window_) windowInFlight_ = --windowFlights_ == 0 ? 0 : windowInFlight_ - flight.bytes;
  flyingShare_ = --flights_ == 0 ? 0 : flyingShare_ - flight.share;
  flyingBytes_ = flights_ == 0 ? 0 : flyingBytes_ - flight.bytes;
  quietLooks_ = 0;
}

bool LinkQueue::look(const Uplink& uplink, bool* waits) {
  *waits = !(small_.empty() && large_.empty());
  if (!*waits) {
    quietLooks_ = 0;
    return false;
  }
  if (quietLooks_ == 0) firstSeen_ = lastSeen_ = uplink.acknowledged;
  const bool moves = uplink.acknowledged - lastSeen_ >= kMovingBytes &&
                     static_cast<double>(uplink.acknowledged - firstSeen_) <= kOverhead * uplink.inFlight;
  lastSeen_ = uplink.acknowledged;
  quietLooks_ = moves ? 1 : quietLooks_ + 1;
  if (quietLooks_ <= kQuietLooks) return false;
  quietLooks_ = 0;
  ++window_;
  windowInFlight_ = 0;
  windowFlights_ = 0;
  return true;
}

}  // namespace hipress
