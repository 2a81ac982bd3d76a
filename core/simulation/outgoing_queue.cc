// SPDX-License-Identifier: Apache-2.0
#include "core/simulation/outgoing_queue.h"

#include <algorithm>
#include <chrono>

#include "core/transport/bundle.h"
#include "core/transport/transport.h"

namespace hipress {
namespace {

/// A link on which less than this is in flight is more likely idle than not.
constexpr double kBusy = 0.5;

double seconds(std::chrono::microseconds time) {
  return std::chrono::duration<double>(time).count();
}

}  // namespace

double OutgoingQueue::bytesOf(const OutgoingMessage& message) {
  return message.share * (message.payload + static_cast<double>(kMessageHeaderBytes));
}

double OutgoingQueue::bytesInBundle(const OutgoingMessage& message) {
  return message.share * (message.payload + static_cast<double>(kPieceHeadBytes));
}

bool OutgoingQueue::isSmall(const OutgoingMessage& message) const {
  return message.payload <= static_cast<double>(bundle_.messageBytes) &&
         message.payload + static_cast<double>(kPieceHeadBytes) <= static_cast<double>(bundle_.bytes);
}

bool OutgoingQueue::fits(const OutgoingMessage& message) const {
  return flying_ == 0 || inFlight_ + bytesOf(message) <= windowBytes_;
}

void OutgoingQueue::push(int priority, const OutgoingMessage& message, double now) {
  const Waiting waiting{priority, sequence_++, message};
  if (!isSmall(message)) return large_.push(waiting);
  if (small_.empty()) due_ = now + seconds(bundle_.linger);
  smallBytes_ += bytesInBundle(message);
  small_.push(waiting);
}

void OutgoingQueue::next(double now, std::vector<OutgoingMessage>& messages) {
  messages.clear();
  hold_ = Hold::kEmpty;
  if (small_.empty() && large_.empty()) return;
  const bool isLarge = small_.empty() || (!large_.empty() && small_.top() < large_.top());
  Heap& heap = isLarge ? large_ : small_;
  hold_ = Hold::kWindow;
  if (!fits(heap.top().message)) return;
  hold_ = Hold::kGather;
  const auto most = static_cast<double>(bundle_.bytes);
  if (!isLarge && flyingShare_ >= kBusy && smallBytes_ < most && now < due_) return;

  double size = 0;
  do {
    const OutgoingMessage& message = heap.top().message;
    size += bytesInBundle(message);
    inFlight_ += bytesOf(message);
    messages.push_back(message);
    heap.pop();
  } while (!isLarge && !small_.empty() && size + bytesInBundle(small_.top().message) <= most &&
           fits(small_.top().message));
  ++flying_;
  flyingShare_ += messagesOf(messages);
  if (isLarge) return;
  smallBytes_ = small_.empty() ? 0 : smallBytes_ - size;
  due_ = now + seconds(bundle_.linger);
}

double OutgoingQueue::messagesOf(const std::vector<OutgoingMessage>& messages) {
  double count = 0;
  for (const OutgoingMessage& message : messages) count += message.share;
  return std::min(1.0, count);
}

void OutgoingQueue::sent(double bytes, double messages) {
  --flying_;
  inFlight_ = flying_ == 0 ? 0 : inFlight_ - bytes;
  flyingShare_ = flying_ == 0 ? 0 : flyingShare_ - messages;
}

}  // namespace hipress
