// SPDX-License-Identifier: Apache-2.0
#include "core/control/tcp/notice_queue.h"

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <utility>

#include "core/base/thread_name.h"

namespace hipress::control {
namespace {

/// A handler of notices that takes longer does not hold up the end of a job.
constexpr Milliseconds kDeliveryTime{1000};

}  // namespace

struct NoticeQueue::State {
  using Handler = std::shared_ptr<ControlPlane::NoticeHandler>;

  std::mutex mutex;
  std::condition_variable changed;
  std::deque<ControlNotice> pending;
  Handler handler;
  bool running = false;
  uint64_t finishedRuns = 0;
  std::thread::id thread;
  bool stopped = false;

  void replaceHandler(std::unique_lock<std::mutex>& lock, Handler next) {
    handler.swap(next);
    changed.notify_all();
    if (running && thread != std::this_thread::get_id()) {
      // Waits for the end of this run, not for "no run": with a new handler the next run may begin at once.
      changed.wait(lock, [this, run = finishedRuns] { return finishedRuns != run; });
    }
    lock.unlock();  // `next` has the old handler now, and destroys its captures without our lock
  }
};

NoticeQueue::NoticeQueue() : state_(std::make_shared<State>()), thread_([state = state_] { run(state); }) {}

NoticeQueue::~NoticeQueue() {
  stop();
  if (!thread_.joinable()) return;
  if (thread_.get_id() == std::this_thread::get_id()) {
    thread_.detach();
  } else {
    thread_.join();
  }
}

void NoticeQueue::push(ControlNotice notice) {
  const std::lock_guard lock(state_->mutex);
  if (state_->stopped) return;
  state_->pending.push_back(std::move(notice));
  state_->changed.notify_all();
}

void NoticeQueue::setHandler(ControlPlane::NoticeHandler handler) {
  const std::shared_ptr<State> state = state_;
  std::unique_lock lock(state->mutex);
  if (state->stopped) return;
  state->replaceHandler(
      lock, handler ? std::make_shared<ControlPlane::NoticeHandler>(std::move(handler)) : State::Handler());
}

void NoticeQueue::awaitDelivery() {
  const std::shared_ptr<State> state = state_;
  std::unique_lock lock(state->mutex);
  if (state->thread == std::this_thread::get_id()) return;
  state->changed.wait_for(lock, kDeliveryTime, [&] {
    return state->stopped || !state->handler || (state->pending.empty() && !state->running);
  });
}

void NoticeQueue::stop() {
  const std::shared_ptr<State> state = state_;
  std::unique_lock lock(state->mutex);
  state->stopped = true;
  state->replaceHandler(lock, nullptr);
}

void NoticeQueue::run(const std::shared_ptr<State>& state) {
  nameThisThread("notices");
  std::unique_lock lock(state->mutex);
  state->thread = std::this_thread::get_id();
  for (;;) {
    state->changed.wait(lock, [&] { return state->stopped || (state->handler && !state->pending.empty()); });
    if (state->stopped) return;
    const ControlNotice notice = std::move(state->pending.front());
    state->pending.pop_front();
    State::Handler handler = state->handler;
    state->running = true;
    lock.unlock();
    (*handler)(notice);
    handler.reset();  // before "not running": a thread that waits for that may then free the objects to
                      // which the handler refers
    lock.lock();
    state->running = false;
    ++state->finishedRuns;
    state->changed.notify_all();
  }
}

}  // namespace hipress::control
