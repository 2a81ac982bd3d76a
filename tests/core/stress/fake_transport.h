// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "core/transport/transport.h"

namespace hipress::stress {

/// Keeps what is handed to it until told that it went; closed, it answers at once as a closed transport does.
class FakeTransport final : public Transport {
 public:
  std::string name() const override { return "fake"; }
  int rank() const override { return 0; }
  int worldSize() const override { return 2; }
  void send(SendRequest request) override {
    {
      const std::lock_guard lock(mutex_);
      if (!closed_) {
        inFlight_ += request.payload.size() + kMessageHeaderBytes;
        most_ = std::max(most_, requests_.empty() ? 0 : inFlight_);  // one alone may be any size
        requests_.push_back(std::move(request));
        return;
      }
    }
    request.onSent(std::make_shared<Error>(ErrorKind::kNotInitialized, "closed"));
  }
  void recv(RecvRequest) override {}
  void fail(const Failure&) override {}
  void onPeerFailure(std::function<void(int, const std::string&)>) override {}
  TransportCounters counters() const override { return {}; }
  void close() override {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }

  /// The oldest message is out. False if there is none.
  bool complete() {
    SendRequest oldest;
    {
      const std::lock_guard lock(mutex_);
      if (requests_.empty()) return false;
      oldest = std::move(requests_.front());
      requests_.pop_front();
      inFlight_ -= oldest.payload.size() + kMessageHeaderBytes;
    }
    oldest.onSent(nullptr);
    return true;
  }
  size_t mostInFlight() const { return most_; }

 private:
  std::mutex mutex_;
  std::deque<SendRequest> requests_;
  size_t inFlight_ = 0;
  size_t most_ = 0;
  bool closed_ = false;
};

}  // namespace hipress::stress
