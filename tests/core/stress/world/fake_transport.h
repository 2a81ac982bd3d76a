// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "core/transport/transport.h"

namespace hipress::stress {

/// Keeps messages until complete() sends them; after close() it ends them at once, as a real transport.
class FakeTransport final : public Transport {
 public:
  explicit FakeTransport(int worldSize = 2) : worldSize_(worldSize) {}
  std::string name() const override { return "fake"; }
  int rank() const override { return 0; }
  int worldSize() const override { return worldSize_; }
  void send(SendRequest request) override {
    take({{request.tag}, request.payload.size() + kMessageHeaderBytes, std::move(request.onSent)});
  }
  void sendBundle(BundleRequest request) override {
    Sent bundle;
    for (const auto& message : request.messages) {
      bundle.tags.push_back(message.tag);
      bundle.bytes += message.payload.size() + kMessageHeaderBytes;
    }
    bundle.onSent = std::move(request.onSent);
    take(std::move(bundle));
  }
  bool usesSockets(int) const override { return true; }
  /// With each call `bytesPerLook` more.
  uint64_t acknowledgedBytes() const override { return acknowledged_ += bytesPerLook; }
  std::atomic<uint64_t> bytesPerLook{0};
  void recv(RecvRequest) override {}
  void fail(const Failure&) override {}
  void onPeerFailure(std::function<void(int, const std::string&)>) override {}
  TransportCounters counters() const override { return {}; }
  void close() override {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }

  /// Completes the oldest message or bundle. Returns false if there is none.
  bool complete() {
    Sent oldest;
    {
      const std::lock_guard lock(mutex_);
      if (sent_.empty()) return false;
      oldest = std::move(sent_.front());
      sent_.pop_front();
      inFlight_ -= oldest.bytes;
    }
    oldest.onSent(nullptr);
    return true;
  }
  size_t mostInFlight() const { return most_; }
  /// The tags of everything sent so far: one tag for a single message, several tags for a bundle.
  std::vector<std::vector<MessageTag>> handed() const {
    const std::lock_guard lock(mutex_);
    return handed_;
  }

 private:
  struct Sent {
    std::vector<MessageTag> tags;
    size_t bytes = 0;
    EndCallback onSent;
  };

  void take(Sent sent) {
    {
      const std::lock_guard lock(mutex_);
      if (!closed_) {
        inFlight_ += sent.bytes;
        most_ = std::max(most_, sent_.empty() ? 0 : inFlight_);  // a single message may have any size
        handed_.push_back(sent.tags);
        sent_.push_back(std::move(sent));
        return;
      }
    }
    sent.onSent(std::make_shared<Error>(ErrorKind::kNotInitialized, "closed"));
  }

  const int worldSize_;
  mutable std::mutex mutex_;
  std::deque<Sent> sent_;
  std::vector<std::vector<MessageTag>> handed_;
  size_t inFlight_ = 0;
  size_t most_ = 0;
  bool closed_ = false;
  mutable std::atomic<uint64_t> acknowledged_{0};
};

}  // namespace hipress::stress
