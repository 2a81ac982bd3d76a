// SPDX-License-Identifier: Apache-2.0
//
// Frames over a non-blocking socket. The two halves are apart because a client sends from any thread and
// receives on one. Neither owns the socket.
#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <string>

#include "core/control/message.h"

namespace hipress::control {

class FrameReceiver {
 public:
  FrameReceiver(int fd, size_t limit) : fd_(fd), limit_(limit) {}

  void setLimit(size_t limit) { limit_ = limit; }

  /// Reads some of the bytes that have come. False: the connection is over, and reason() says how.
  bool receive();

  /// The next complete frame, if there is one. Throws Malformed if it is larger than the limit.
  std::optional<Frame> next();

  /// How the connection ended: completes "rank 2 was lost: ".
  std::string reason() const;

 private:
  int fd_;
  size_t limit_;
  std::string bytes_;  ///< Grows as bytes arrive, never because a length announces them.
  size_t begin_ = 0;
  int error_ = 0;
};

class FrameSender {
 public:
  explicit FrameSender(int fd) : fd_(fd) {}

  void queue(FrameBytes frame);

  /// Sends as much as the socket takes now. A broken connection swallows the queued bytes: that it is broken
  /// is found where it is received from, after everything that came before.
  void flush();

  bool empty() const { return chunks_.empty(); }

 private:
  int fd_;
  std::deque<SharedValue> chunks_;
  size_t sent_ = 0;  ///< Bytes of the first chunk.
};

}  // namespace hipress::control
