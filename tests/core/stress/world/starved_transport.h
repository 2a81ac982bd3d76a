// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <new>
#include <string>
#include <utility>

#include "core/transport/transport.h"

namespace hipress::stress {

/// Has no memory for the messages for which `starves` is true; all else goes to the inner transport.
class StarvedTransport final : public Transport {
 public:
  using Starves = std::function<bool(const MessageTag&)>;

  StarvedTransport(std::unique_ptr<Transport> inner, Starves starvesSend, Starves starvesReceive = nullptr)
      : inner_(std::move(inner)),
        starvesSend_(std::move(starvesSend)),
        starvesReceive_(std::move(starvesReceive)) {}
  std::string name() const override { return inner_->name(); }
  int rank() const override { return inner_->rank(); }
  int worldSize() const override { return inner_->worldSize(); }
  void send(SendRequest request) override {
    if (starvesSend_ && starvesSend_(request.tag)) throw std::bad_alloc();
    inner_->send(std::move(request));
  }
  void sendBundle(BundleRequest request) override { inner_->sendBundle(std::move(request)); }
  bool usesSockets(int peer) const override { return inner_->usesSockets(peer); }
  void recv(RecvRequest request) override {
    if (starvesReceive_ && starvesReceive_(request.tag)) throw std::bad_alloc();
    inner_->recv(std::move(request));
  }
  void fail(const Failure& failure) override { inner_->fail(failure); }
  void onPeerFailure(std::function<void(int, const std::string&)> handler) override {
    inner_->onPeerFailure(std::move(handler));
  }
  TransportCounters counters() const override { return inner_->counters(); }
  void close() override { inner_->close(); }

 private:
  const std::unique_ptr<Transport> inner_;
  const Starves starvesSend_;
  const Starves starvesReceive_;
};

}  // namespace hipress::stress
