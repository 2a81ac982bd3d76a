// SPDX-License-Identifier: Apache-2.0
#include "core/transport/ucx/trust/link_check.h"

#include <algorithm>

#include "core/control/roster.h"

namespace hipress {

LinkCheck::LinkCheck(int rank, int worldSize)
    : rank_(rank), greeted_(static_cast<size_t>(worldSize)), flushed_(static_cast<size_t>(worldSize)) {
  greeted_[static_cast<size_t>(rank)] = flushed_[static_cast<size_t>(rank)] = true;
}

void LinkCheck::greeted(int peer) {
  const std::lock_guard lock(mutex_);
  greeted_[static_cast<size_t>(peer)] = true;
  if (allDone()) changed_.notify_all();
}

void LinkCheck::flushed(int peer) {
  const std::lock_guard lock(mutex_);
  flushed_[static_cast<size_t>(peer)] = true;
  if (allDone()) changed_.notify_all();
}

void LinkCheck::failed(const Error& error) {
  const std::lock_guard lock(mutex_);
  if (!error_) error_ = error;
  changed_.notify_all();
}

bool LinkCheck::allDone() const {
  return std::ranges::find(greeted_, false) == greeted_.end() &&
         std::ranges::find(flushed_, false) == flushed_.end();
}

void LinkCheck::wait(ControlPlane& control, Milliseconds timeout, const std::stop_token& stop) {
  control.onNotice([this](const ControlNotice& notice) {
    if (notice.kind == ControlNotice::Kind::kConflict) return;
    failed(Error(notice.error, notice.message));
  });
  std::optional<Error> error;
  std::vector<int> missing;
  {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, stop, timeout, [this] { return error_ || allDone(); });
    for (size_t peer = 0; peer < greeted_.size(); ++peer) {
      if (!greeted_[peer] || !flushed_[peer]) missing.push_back(static_cast<int>(peer));
    }
    error = error_;
  }
  control.onNotice(nullptr);
  if (error) throw Error(*error);
  if (missing.empty()) return;
  if (stop.stop_requested()) throw Error(ErrorKind::kNotInitialized, "the start of this rank was ended");
  throw Error(ErrorKind::kTimeout,
              "rank " + std::to_string(rank_) + " is connected with " + control::rankList(missing) +
                  ", but no message came through within " + control::seconds(timeout.count()) +
                  "; look for a firewall or a wrong MTU between the hosts, or a process that is stopped");
}

}  // namespace hipress
