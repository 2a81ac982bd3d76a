// SPDX-License-Identifier: Apache-2.0
//
// How a failure on one rank becomes the same error on all, in bounded time: lost and leaving ranks, ranks
// that disagree. Deadlines are in engine_deadlines.cc.
#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "core/casync/engine.h"

namespace hipress {
namespace {

/// Tensor numbers start at 1: this one is for telling peers about a failure.
constexpr MessageTag kFailureTag{};
constexpr size_t kMaxFailureText = 4096;

}  // namespace

void Engine::throwIfFailed(const std::string& doing) {
  const std::lock_guard lock(mutex_);
  if (failure_) throw *failure_;
  if (stopped_) throw Error(ErrorKind::kNotInitialized, doing + ": the engine is shut down");
}

void Engine::fail(const Error& error) {
  failWith(error, true);
}

void Engine::failWith(const Error& error, bool tellOthers) {
  const Failure failure = std::make_shared<Error>(error);
  std::vector<OperationPointer> inFlight;
  {
    const std::lock_guard lock(mutex_);
    if (failure_ || stopped_) return;
    failure_ = failure;
    for (auto& [handle, operation] : operations_) inFlight.push_back(operation);
  }
  if (tellOthers) {
    // Twice, because each way has a hole: the control plane goes through rank 0, which may be the one that is
    // stopped; the transport may be what is broken.
    control_->abort(error.kind(), error.what());
    tellPeers(error);
  }
  for (const auto& operation : inFlight) end(operation, failure);
  transport_->fail(failure);
}

void Engine::tellPeers(const Error& error) {
  const std::string text = std::string(error.what()).substr(0, kMaxFailureText);
  const auto payload = std::make_shared<std::vector<std::byte>>(1 + text.size());
  (*payload)[0] = static_cast<std::byte>(error.kind());
  std::memcpy(payload->data() + 1, text.data(), text.size());
  for (int peer = 0; peer < worldSize_; ++peer) {
    if (peer == rank_) continue;
    SendRequest request;
    request.peer = peer;
    request.tag = kFailureTag;
    request.payload = *payload;
    request.onSent = [payload](const Failure&) {};
    transport_->send(std::move(request));
  }
}

void Engine::listenForFailures() {
  for (int peer = 0; peer < worldSize_; ++peer) {
    if (peer == rank_) continue;
    const auto text = std::make_shared<std::vector<std::byte>>();
    RecvRequest request;
    request.peer = peer;
    request.tag = kFailureTag;
    request.onHeader = [text](const MessageHeader&, size_t bytes) {
      if (bytes < 1 || bytes > 1 + kMaxFailureText)
        throw corruptPayload("a peer's failure has no readable reason");
      text->resize(bytes);
      return std::span<std::byte>(*text);
    };
    request.onReceived = [this, peer, text](const Failure& failure) {
      if (failure) return;  // this rank's own end
      auto kind = static_cast<ErrorKind>((*text)[0]);
      // Bytes from a network: Python has no exception for a kind that does not exist.
      if (kind < ErrorKind::kInvalidArgument || kind > ErrorKind::kRefused) kind = ErrorKind::kPeerLost;
      const std::string reason(reinterpret_cast<const char*>(text->data()) + 1, text->size() - 1);
      failWith(Error(kind, "rank " + std::to_string(peer) + " reports: " + reason), false);
    };
    transport_->recv(std::move(request));
  }
}

void Engine::onNotice(const ControlNotice& notice) {
  switch (notice.kind) {
    case ControlNotice::Kind::kLost:
      // Who loses rank 0 finds out alone: nobody else tells the others, who will lose this rank next.
      return failWith(Error(ErrorKind::kPeerLost, notice.message), notice.rank == 0);
    case ControlNotice::Kind::kAborted:
      return failWith(Error(notice.error, notice.message), false);
    case ControlNotice::Kind::kLeft:
      return onDeparture(notice.rank,
                         "rank " + std::to_string(notice.rank) + " has left (it called shutdown)", true);
    case ControlNotice::Kind::kConflict: {
      OperationPointer active;
      const Failure failure = std::make_shared<Error>(ErrorKind::kMismatch, notice.message);
      {
        const std::lock_guard lock(mutex_);
        const auto found = tensors_.find(notice.tensor);
        if (found == tensors_.end()) {
          // The answer to this rank's own declaration may still be on its way to declareOne().
          earlyConflicts_[notice.tensor] = failure;
          return;
        }
        found->second.conflict = failure;
        active = found->second.active;
      }
      // Only this tensor is affected. What peers sent of it stays with the transport, which keeps its memory
      // alive.
      if (active) end(active, failure);
      if (active && !options_.pipelining) startNext(*active);
      return;
    }
  }
}

/// It may have done its part, or have failed and closed its connections: whoever knows more is given a moment
/// to say so.
void Engine::onDeparture(int rank, const std::string& how, bool saidGoodbye) {
  const std::lock_guard lock(mutex_);
  const auto known = std::ranges::find(gone_, rank, &Departure::rank);
  if (known == gone_.end()) {
    gone_.push_back({rank, how});
    goneAt_ = Clock::now();
  } else if (saidGoodbye) {
    known->how = how;
  }
}

}  // namespace hipress
