// SPDX-License-Identifier: Apache-2.0
#include "core/casync/fail/failure_detection.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <utility>

#include "core/base/warning.h"

namespace hipress {
namespace {

/// The tag of a failure report. Tensor numbers start at 1.
constexpr MessageTag kFailureTag{};
constexpr size_t kMaxFailureText = 4096;

Error reportedBy(int peer, const std::vector<std::byte>& text) {
  auto kind = static_cast<ErrorKind>(text[0]);
  // The kind comes from the network, and Python has no exception for an unknown kind.
  if (kind < ErrorKind::kInvalidArgument || kind > ErrorKind::kRefused) kind = ErrorKind::kPeerLost;
  const std::string reason(reinterpret_cast<const char*>(text.data()) + 1, text.size() - 1);
  return {kind, "rank " + std::to_string(peer) + " reports: " + reason};
}

}  // namespace

void FailureDetection::begin(std::function<void(const ControlNotice&)> others) {
  others_ = std::move(others);
  transport_.onPeerFailure([this](int peer, const std::string& reason) {
    lost(peer, "rank " + std::to_string(peer) + " was lost (" + reason + ")");
  });
  control_.onNotice([this](const ControlNotice& notice) { onNotice(notice); });
  for (int peer = 0; peer < transport_.worldSize(); ++peer) {
    if (peer != transport_.rank()) listenTo(peer);
  }
}

void FailureDetection::end(const Error& error, bool isOwn) {
  const Failure failure = failureOf(error);
  if (!job_.fail(failure, isOwn)) return;
  if (isOwn) {
    // Both ways, because each can fail: the control plane passes through rank 0, which may be the stopped
    // rank, and the transport may be the broken part.
    // Without memory for the reports this rank's operations end nevertheless.
    try {
      control_.abort(error.kind(), error.what());
      tellPeers(error);
    } catch (const std::exception& unsaid) {
      warn(transport_.rank(),
           std::string("it could not tell the other ranks of its failure: ") + unsaid.what());
    }
  }
  operations_.endAll(failure);
  transport_.fail(failure);
}

void FailureDetection::tellPeers(const Error& error) {
  const std::string text = std::string(error.what()).substr(0, kMaxFailureText);
  const auto payload = std::make_shared<std::vector<std::byte>>(1 + text.size());
  (*payload)[0] = static_cast<std::byte>(error.kind());
  std::memcpy(payload->data() + 1, text.data(), text.size());
  for (int peer = 0; peer < transport_.worldSize(); ++peer) {
    if (peer == transport_.rank()) continue;
    SendRequest request;
    request.peer = peer;
    request.tag = kFailureTag;
    request.payload = *payload;
    request.onSent = [payload](const Failure&) {};
    transport_.send(std::move(request));
  }
}

void FailureDetection::listenTo(int peer) {
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
    if (!failure) end(reportedBy(peer, *text), false);  // else this rank itself has ended
  };
  transport_.recv(std::move(request));
}

void FailureDetection::onNotice(const ControlNotice& notice) {
  switch (notice.kind) {
    case ControlNotice::Kind::kLost:
      // This rank tells its peers of the loss of rank 0: else they would lose this rank next and name it.
      return end(Error(ErrorKind::kPeerLost, notice.message), notice.rank == 0);
    case ControlNotice::Kind::kAborted:
      return end(Error(notice.error, notice.message), false);
    case ControlNotice::Kind::kLeft:
      return note(notice.rank, notice.message, true);
    case ControlNotice::Kind::kConflict:
      return operations_.endConflicting(notice.tensor, failureOf(notice.error, notice.message));
    case ControlNotice::Kind::kJoined:
    case ControlNotice::Kind::kDemand:
      return others_(notice);
  }
}

/// Records a departure without ending the job at once. The rank may have done its part, or it may have
/// failed; a rank that knows the reason gets a moment to report it.
void FailureDetection::note(int rank, const std::string& how, bool saidGoodbye) {
  const MutexLock lock(mutex_);
  const auto known = std::ranges::find(departures_, rank, &Departure::rank);
  if (known == departures_.end()) {
    departures_.push_back({rank, how});
    lastDeparture_ = Clock::now();
  } else if (saidGoodbye) {
    known->how = how;
  }
}

std::optional<std::string> FailureDetection::departedBefore(Clock::time_point time,
                                                            const ProcessSet& among) const {
  const MutexLock lock(mutex_);
  if (lastDeparture_ > time) return std::nullopt;
  for (const Departure& departure : departures_) {
    if (positionOf(among, departure.rank) >= 0) return departure.how;
  }
  return std::nullopt;
}

}  // namespace hipress
