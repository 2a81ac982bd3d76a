// SPDX-License-Identifier: Apache-2.0
//
// Codecs' memory: what encoding a tensor leaves for the next step (error feedback, momentum), kept by this
// rank. Double-buffered: encode reads the old values of a partition and writes new ones elsewhere, and only a
// success swaps the two.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <memory_resource>
#include <mutex>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "core/base/buffer_pool.h"
#include "core/codec/codec.h"

namespace hipress {

/// Who encodes: the worker its own gradient, or the aggregator the merged one.
enum class StateRole : unsigned char { kWorker = 0, kAggregator = 1 };

class StateStore;

/// A pool for states. Each encode takes new blocks before it gives back the old ones, so that a pool keeps
/// blocks of each size.
inline std::shared_ptr<BufferPool> makeStatePool(std::shared_ptr<Memory> memory) {
  return std::make_shared<BufferPool>(std::move(memory), BufferPool::Spare{4, BufferPool::kAnyNumber});
}

/// The old and the new states of one partition, for one encode. They stay readable and writable for as long
/// as this lives, whatever becomes of the tensor meanwhile.
class StateLease {
 public:
  /// `owner` nullptr: of a codec without states. One partition has one lease at a time; of two, the last to
  /// commit counts.
  StateLease(std::shared_ptr<class TensorStates> owner, size_t partition);
  StateLease(const StateLease&) = delete;
  StateLease& operator=(const StateLease&) = delete;

  EncodeStates states() const { return {before_, after_}; }
  /// The new values become the tensor's; without it they are forgotten.
  void commit();

 private:
  const std::shared_ptr<class TensorStates> owner_;
  const size_t partition_;
  std::array<std::byte, 256> room_;  // for the lists of five states; those of more are allocated
  std::pmr::monotonic_buffer_resource memory_{room_.data(), room_.size()};
  std::pmr::vector<BufferPool::Shared> blocks_{&memory_};
  std::pmr::vector<const float*> before_{&memory_};
  std::pmr::vector<float*> after_{&memory_};
};

/// All states of one tensor in one role, cut into the partitions that they were opened with.
class TensorStates {
  friend class StateStore;
  friend class StateLease;

  /// One partition of a state: its values, or nullptr while they are all zero.
  using Blocks = std::vector<BufferPool::Shared>;
  struct Vector {
    std::shared_ptr<BufferPool> memory;
    std::vector<size_t> counts;  // elements of each partition, in order
    Blocks blocks;
    size_t size() const;
  };

  std::shared_ptr<BufferPool> memory_;
  std::shared_ptr<std::mutex> mutex_;  // the store's: guards the vectors
  std::vector<std::shared_ptr<Vector>> vectors_;
  std::vector<size_t> counts_;
};

/// States keyed by the tensor's name, the role and the state's name, so that they survive a change of ids,
/// plans, partitions and codecs, and can be saved. Thread-safe.
class StateStore {
 public:
  StateStore();

  /// The states of a tensor that is encoded in partitions of so many elements, in order; zeros if they are
  /// new. If they exist in other partitions they are copied into these. Throws Mismatch if they exist with
  /// another number of elements. Memory is taken by the first lease of each partition: an aggregator's states
  /// cost only the partitions it aggregates.
  /// `place` is a device's memory for them, nullptr the host's; what was elsewhere moves there.
  std::shared_ptr<TensorStates> open(const std::string& tensor, StateRole role,
                                     std::span<const std::string> states, std::vector<size_t> partitions,
                                     std::shared_ptr<BufferPool> place = nullptr);

  /// A copy of one state, all partitions in a row, or an empty vector if there is none.
  std::vector<float> copy(const std::string& tensor, StateRole role, const std::string& state) const;

  /// Writes the elements of one state from `first` on, or zeros if there is none.
  void read(const std::string& tensor, StateRole role, const std::string& state, size_t first,
            std::span<float> values) const;

  struct Entry {
    std::string tensor;
    StateRole role;
    std::string state;
    size_t count;
  };
  std::vector<Entry> entries() const;
  /// Those of one tensor.
  std::vector<Entry> entries(const std::string& tensor) const;

  /// As copy(), and the state is forgotten: for values that go on their way without the codec that kept them.
  std::vector<float> take(const std::string& tensor, StateRole role, const std::string& state);

  /// As if encoding in partitions of so many elements had left these values in place of what was kept.
  void put(const std::string& tensor, StateRole role, const std::string& state,
           std::vector<size_t> partitions, std::span<const float> values);

  /// Changes whenever what open() would give may have changed.
  uint64_t generation() const { return generation_.load(std::memory_order_acquire); }

  void erase(const std::string& tensor);
  void clear();
  size_t bytes() const;      ///< Of all states, as if all of them had been written.
  size_t bytesHeld() const;  ///< Allocated on the host, spares and leases included.

 private:
  using Key = std::tuple<std::string, StateRole, std::string>;

  static std::vector<float> joined(const TensorStates::Vector& vector);
  static void move(TensorStates::Vector& vector, const std::shared_ptr<BufferPool>& place);
  void cut(TensorStates::Vector& vector, const std::vector<size_t>& counts);

  std::shared_ptr<BufferPool> memory_;
  std::shared_ptr<std::mutex> mutex_;
  std::map<Key, std::shared_ptr<TensorStates::Vector>> vectors_;
  std::atomic<uint64_t> generation_{1};
};

}  // namespace hipress
