// SPDX-License-Identifier: Apache-2.0
#include "core/slots/slot_changes.h"

#include <atomic>
#include <bit>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

namespace hipress {
namespace {

struct Change {
  std::shared_ptr<SlotStates> states;
  const uint32_t* absent;
  std::shared_ptr<const void> owner;
};

}  // namespace

/// What work on a stream uses.
struct SlotChanges::Shared {
  explicit Shared(std::shared_ptr<Device> owner)
      : device(std::move(owner)),
        verdict(static_cast<uint32_t*>(device->memory()->allocateZeros(sizeof(uint32_t)))) {}
  ~Shared() { device->memory()->free(verdict); }
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;

  const std::shared_ptr<Device> device;
  uint32_t* const verdict;
  std::mutex mutex;
  std::map<std::string, Change> changed;
  bool discarded = false;
  std::atomic<bool> nanIfRefused{false};
};

SlotChanges::SlotChanges(std::shared_ptr<Device> device, bool keepsStates)
    : keepsStates_(keepsStates), shared_(std::make_shared<Shared>(std::move(device))) {}

uint32_t* SlotChanges::verdict() const {
  return shared_->verdict;
}

bool SlotChanges::nanIfRefused() const {
  return shared_->nanIfRefused;
}

void SlotChanges::setNanIfRefused(bool nan) {
  shared_->nanIfRefused = nan;
}

void SlotChanges::add(const std::string& key, std::shared_ptr<SlotStates> states, const uint32_t* absent,
                      std::shared_ptr<const void> owner) {
  const std::lock_guard lock(shared_->mutex);
  shared_->changed.insert_or_assign(key, Change{std::move(states), absent, std::move(owner)});
}

void SlotChanges::discard() {
  const std::lock_guard lock(shared_->mutex);
  shared_->discarded = true;
}

void SlotChanges::look(DeviceStream& stream, const SlotValues& average) const {
  if (!keepsStates_ || average.count == 0) return;
  const SlotSpan values{average.data, average.count, verdict(),
                        static_cast<uint32_t>(elementSize(average.dtype))};
  stream.findNotFinite(average.dtype, std::span(&values, 1));
}

void SlotChanges::writeVerdict(DeviceStream& stream, std::byte* to) const {
  stream.fillZeros({to, sizeof(float)});
  const SlotSpan asked{verdict(), 1, reinterpret_cast<uint32_t*>(to), sizeof(uint32_t),
                       std::bit_cast<uint32_t>(1.0F)};
  stream.findNonzero(std::span(&asked, 1));
}

bool SlotChanges::settle(DeviceStream& stream) {
  std::map<std::string, Change> changed;
  bool discarded = false;
  {
    const std::lock_guard lock(shared_->mutex);
    std::swap(changed, shared_->changed);
    discarded = std::exchange(shared_->discarded, false);
  }
  const bool known = discarded || (stream.worksAtOnce() && *verdict() != 0);
  std::vector<SlotRestore> all;
  for (auto& [key, change] : changed) {
    SlotStates& states = *change.states;
    if (discarded) {
      states.exchange();
      continue;
    }
    const EncodeStates lists = states.lists();
    for (size_t state = 0; state < states.states().size(); ++state) {
      // After the exchange the states are what the next encode reads, and it will write over the old ones.
      auto* const now = const_cast<float*>(lists.before[state]);
      all.push_back({change.absent, lists.after[state], now, states.states()[state].count(states.count())});
    }
  }
  stream.restore(all, verdict());
  stream.fillZeros(std::as_writable_bytes(std::span(verdict(), 1)));
  auto used = std::make_shared<std::map<std::string, Change>>(std::move(changed));
  stream.whenDone([shared = shared_, used = std::move(used)](const Failure&) {});
  return known;
}

}  // namespace hipress
