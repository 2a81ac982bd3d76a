// SPDX-License-Identifier: Apache-2.0
#include "core/control/wire/framed_stream.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <utility>

#include "core/control/wire/socket.h"

namespace hipress::control {

bool FrameReceiver::receive() {
  constexpr size_t kChunk = size_t{64} << 10;
  constexpr int kRounds = 16;  // then other connections get their turn; the poller returns
  for (int round = 0; round < kRounds; ++round) {
    const size_t size = bytes_.size();
    bytes_.resize(size + kChunk);
    const ssize_t got = ::recv(fd_, bytes_.data() + size, kChunk, MSG_DONTWAIT);
    const int error = errno;
    bytes_.resize(size + (got > 0 ? static_cast<size_t>(got) : 0));
    if (got > 0) continue;
    if (got == 0) return false;
    if (error == EAGAIN || error == EWOULDBLOCK) return true;
    if (error == EINTR) continue;
    error_ = error;
    return false;
  }
  return true;
}

std::optional<Frame> FrameReceiver::next() {
  const size_t available = bytes_.size() - begin_;
  std::optional<Frame> frame;
  if (available >= kFrameHeader) {
    const auto* header = reinterpret_cast<const unsigned char*>(bytes_.data()) + begin_;
    const size_t length =
        size_t{header[0]} | size_t{header[1]} << 8 | size_t{header[2]} << 16 | size_t{header[3]} << 24;
    if (length > limit_) throw Malformed("a message is larger than allowed");
    if (available - kFrameHeader >= length) {
      frame = Frame{static_cast<FrameType>(header[4]), bytes_.substr(begin_ + kFrameHeader, length)};
      begin_ += kFrameHeader + length;
    }
  }
  // Drops bytes that were read when the reader has caught up, or when they fill most of the buffer: so each
  // byte moves once.
  if (begin_ == bytes_.size() || begin_ > bytes_.size() / 2) {
    bytes_.erase(0, begin_);
    begin_ = 0;
    if (bytes_.empty()) bytes_.shrink_to_fit();
  }
  return frame;
}

std::string FrameReceiver::reason() const {
  if (error_ == 0 || error_ == ECONNRESET || error_ == EPIPE) {
    return "closed without a goodbye: the process died or its host became unreachable";
  }
  return "broke (" + errorText(error_) + "): its host became unreachable";
}

void FrameSender::queue(FrameBytes frame) {
  chunks_.push_back(std::make_shared<const std::string>(std::move(frame.head)));
  if (frame.body && !frame.body->empty()) chunks_.push_back(std::move(frame.body));
}

void FrameSender::flush() {
  constexpr size_t kChunks = 64;
  while (!chunks_.empty()) {
    std::array<iovec, kChunks> parts{};
    msghdr message{};
    message.msg_iov = parts.data();
    for (size_t skipped = sent_; message.msg_iovlen < std::min(kChunks, chunks_.size()); skipped = 0) {
      const std::string& chunk = *chunks_[message.msg_iovlen];
      // The system only reads, though the type does not say so.
      parts[message.msg_iovlen++] = {const_cast<char*>(chunk.data()) + skipped, chunk.size() - skipped};
    }
    const ssize_t count = ::sendmsg(fd_, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK) return;
      chunks_.clear();
      sent_ = 0;
      return;
    }
    sent_ += static_cast<size_t>(count);
    while (!chunks_.empty() && sent_ >= chunks_.front()->size()) {
      sent_ -= chunks_.front()->size();
      chunks_.pop_front();
    }
  }
}

}  // namespace hipress::control
