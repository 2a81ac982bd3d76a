// SPDX-License-Identifier: Apache-2.0
//
// Frames over a non-blocking socket. Receiver and sender are separate, because a client sends from any thread
// and receives on one thread. Neither owns the socket.
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

  /// Reads some of the bytes that have come. Returns false when the connection has ended, see reason().
  bool receive();

  /// The next complete frame, if there is one. Throws Malformed if it is larger than the limit.
  std::optional<Frame> next();

  /// The cause of the connection's end; completes "rank 2 was lost: ".
  std::string reason() const;

 private:
  int fd_;
  size_t limit_;
  std::string bytes_;  ///< Grows when bytes arrive, and never because of an announced length.
  size_t begin_ = 0;
  int error_ = 0;
};

class FrameSender {
 public:
  explicit FrameSender(int fd) : fd_(fd) {}

  void queue(FrameBytes frame);

  /// Sends as much as the socket takes now, frames together. On a broken connection the queued bytes are
  /// dropped. The receiver finds the break, after all bytes that came before it.
  void flush();

  bool empty() const { return chunks_.empty(); }

 private:
  int fd_;
  std::deque<SharedValue> chunks_;
  size_t sent_ = 0;  ///< Sent bytes of the first chunk.
};

}  // namespace hipress::control
