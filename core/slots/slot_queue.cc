// SPDX-License-Identifier: Apache-2.0
#include "core/slots/slot_queue.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <string>
#include <utility>

#include "core/device/keep_until_done.h"

namespace hipress {

SlotQueue::~SlotQueue() {
  for (Block& block : blocks_) {
    if (block.memory != nullptr) keepUntilDone(*stream_, std::move(block.memory));
  }
}

std::byte* SlotQueue::block(size_t number, size_t bytes) {
  Block& block = blocks_[number];
  if (block.memory == nullptr || block.bytes < bytes) {
    if (block.memory != nullptr) keepUntilDone(*stream_, std::move(block.memory));
    const std::shared_ptr<Memory> memory = device_->memory();
    // Devices have no blocks of no bytes.
    block.memory = {memory->allocate(std::max<size_t>(bytes, 1)), [memory](void* old) { memory->free(old); }};
    block.bytes = bytes;
  }
  return static_cast<std::byte*>(block.memory.get());
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
