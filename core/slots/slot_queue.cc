// SPDX-License-Identifier: Apache-2.0
#include "core/slots/slot_queue.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <string>
#include <utility>

#include "core/device/keep_until_done.h"

namespace hipress {

namespace {

/// Of the memory, in floats: as the widest loads of kernels want it.
constexpr size_t kAlignment = 64;

}  // namespace

SlotQueue::~SlotQueue() {
  for (auto& block : blocks_) keepUntilDone(*stream_, std::move(block));
}

void SlotQueue::begin() {
  // Of blocks that were too small.
  for (; blocks_.size() > 1; blocks_.erase(blocks_.begin()))
    keepUntilDone(*stream_, std::move(blocks_.front()));
  used_ = 0;
  own_ = {};
}

void SlotQueue::beginLine() {
  if (stream_->worksAtOnce()) begin();
  own_ = {};
}

std::span<float> SlotQueue::floats(size_t number, size_t count) {
  if (own_[number].size() < count) {
    if (blocks_.empty() || used_ + count > most_) {
      // So large that one block holds the lines of a later step.
      most_ = count + 2 * used_;
      const std::shared_ptr<Memory> memory = device_->memory();
      blocks_.emplace_back(memory->allocate(most_ * sizeof(float)),
                           [memory](void* old) { memory->free(old); });
      used_ = 0;
    }
    own_[number] = {static_cast<float*>(blocks_.back().get()) + used_, count};
    used_ += (count + kAlignment - 1) / kAlignment * kAlignment;
  }
  return own_[number].first(count);
}

void SlotQueue::wait(Milliseconds limit) {
  struct End {
    std::mutex mutex;
    std::condition_variable changed;
    bool reached = false;
    Failure failure;
  };
  const auto end = std::make_shared<End>();
  stream_->whenDone([end](const Failure& failure) {
    const std::lock_guard lock(end->mutex);
    end->reached = true;
    end->failure = failure;
    end->changed.notify_all();
  });
  std::unique_lock lock(end->mutex);
  if (!end->changed.wait_for(lock, limit, [&] { return end->reached; }))
    throw Error(ErrorKind::kTimeout, "device " + device_->name() + " has not ended its work within " +
                                         std::to_string(limit.count()) + " ms");
  if (end->failure != nullptr) throw Error(*end->failure);
}

}  // namespace hipress
